"""Calls torch's SDPA with exactly one backend allowed, for the files that name one each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.declare import AttentionSpec, Unsupported

if TYPE_CHECKING:
    import torch

REFUSES = ("No available kernel", "No viable backend for scaled_dot_product_attention")
"""What SDPA says when the one backend cannot: it never falls back to another, since no other is allowed."""


def sdpa_with(backend_name: str, spec: AttentionSpec) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """fn(q, k, v) -> out through the `SDPBackend` called `backend_name`; choosing it costs some 15 microseconds of each call."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if spec.mask == "causal" and spec.seq_len != spec.kv_len:
        raise Unsupported("SDPA's is_causal aligns the mask at the start, so it needs as many keys as queries")
    backend = getattr(SDPBackend, backend_name)
    causal = spec.mask == "causal"
    grouped = spec.heads != spec.kv_heads

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(
                q, k, v, dropout_p=spec.dropout, is_causal=causal, scale=spec.scale, enable_gqa=grouped
            )
        # No copy where the kernel writes the layout of projections, as the fused ones do.
        return out.transpose(1, 2).contiguous().transpose(1, 2)

    return attention
