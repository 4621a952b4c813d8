"""Calls torch's SDPA with exactly one backend allowed, for the files that name one each.

SDPA itself knows two masks, causal and none. A window or documents must be given as a matrix: (seq_len, kv_len) numbers, added to the
scores. It is made once per spec and device, at the first call, as a model makes it once per batch for all its layers. So it is
resident: it costs seq_len * kv_len elements of memory that are no part of the pass's peak (512 MiB in bf16 at 16384 tokens), each call
reads it, and whatever it hides is computed all the same. It is made of numbers, not of booleans, because each call would turn those into
numbers first.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.declare import AttentionSpec, Unsupported
from bench.workloads.attention._masks import additive

if TYPE_CHECKING:
    import torch

REFUSES = ("No available kernel", "No viable backend for scaled_dot_product_attention")
"""What SDPA says when the one backend cannot: it never falls back to another, since no other is allowed."""


_HEADINGS = {"FLASH_ATTENTION": "Flash attention", "EFFICIENT_ATTENTION": "Memory efficient", "CUDNN_ATTENTION": "cuDNN attention"}
"""How SDPA begins its reasons against each backend: `<words> kernel not used because:`."""


def sdpa_with(
    backend_name: str, spec: AttentionSpec, *, grouped_heads: bool = True
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """fn(q, k, v) -> out through the `SDPBackend` called `backend_name`; choosing it costs some 15 microseconds of each call.

    Without `grouped_heads` the backend takes as many key and value heads as query heads, so they are repeated first, at its cost.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if spec.mask == "causal" and spec.seq_len != spec.kv_len:
        raise Unsupported("SDPA's is_causal aligns the mask at the start, so it needs as many keys as queries")
    backend = getattr(SDPBackend, backend_name)
    causal = spec.mask == "causal"
    group = spec.heads // spec.kv_heads
    repeats = 1 if grouped_heads else group
    masks: dict[torch.device, torch.Tensor] = {}

    def mask(q: torch.Tensor) -> torch.Tensor | None:
        if spec.mask in ("causal", "full"):
            return None
        if q.device not in masks:
            masks[q.device] = additive(spec, q.device, q.dtype, float("-inf"))
        return masks[q.device]

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if repeats > 1:
            k, v = k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(
                q, k, v, attn_mask=mask(q), dropout_p=spec.dropout, is_causal=causal, scale=spec.scale, enable_gqa=group > repeats
            )

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        try:
            out = call(q, k, v)
        except RuntimeError as error:
            if not any(words in str(error) for words in REFUSES):
                raise
            raise Unsupported(f"{error} {_why(lambda: call(q, k, v), backend_name)}".strip()) from error
        # No copy where the kernel writes the layout of projections, as the fused ones do.
        return out.transpose(1, 2).contiguous().transpose(1, 2)

    attention.make_mask = mask  # type: ignore[attr-defined]
    return attention


def _why(refused: Callable[[], object], backend_name: str) -> str:
    """SDPA's own reasons against the backend, which it gives as warnings only: `refused` is called again to hear them."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with contextlib.suppress(RuntimeError):
            refused()
    said = [str(warning.message).split(" (Triggered internally", 1)[0].strip() for warning in heard]
    reasons = []
    of_backend = False
    for sentence in said:
        if sentence.endswith("kernel not used because:"):
            of_backend = sentence.startswith(_HEADINGS.get(backend_name, sentence))
        elif of_backend:
            reasons.append(sentence)
    return " ".join(dict.fromkeys(reasons))
