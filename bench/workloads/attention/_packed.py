"""Calls a kernel for packed documents: the rows of the whole batch one after the other, and where in them each document begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, Unsupported

if TYPE_CHECKING:
    import torch


def packed(kernel: Callable[..., Any], spec: AttentionSpec) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """fn(q, k, v) -> out on (batch, heads, seq_len, head_dim) views, by FlashAttention's interface for variable lengths.

    `kernel` takes (rows, heads, head_dim) tensors and cu_seqlens_q, cu_seqlens_k (int32, where documents begin, with the end),
    max_seqlen_q, max_seqlen_k. Nothing is copied, since (batch, seq_len, heads, head_dim) memory is such rows.
    """
    import torch

    lengths = spec.document_lengths
    if lengths is None or spec.seq_len != spec.kv_len:
        raise Unsupported("packed documents need as many keys as queries")
    begins: dict[torch.device, torch.Tensor] = {}

    def boundaries(device: torch.device) -> torch.Tensor:
        # A data loader makes them once per batch and every layer reads them, so they are no part of a call.
        if device not in begins:
            ends = torch.tensor(lengths * spec.batch, dtype=torch.int32).cumsum(0, dtype=torch.int32)
            begins[device] = torch.cat([ends.new_zeros(1), ends]).to(device)
        return begins[device]

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        starts = boundaries(q.device)
        rows = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (q, k, v))
        out: torch.Tensor = kernel(
            *rows, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=max(lengths), max_seqlen_k=max(lengths)
        )
        return out.unflatten(0, (q.shape[0], q.shape[2])).transpose(1, 2)

    attention.make_mask = lambda q: boundaries(q.device)  # type: ignore[attr-defined]
    return attention
