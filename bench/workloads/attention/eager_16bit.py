"""Attention in plain PyTorch that keeps scores and weights in the 16 bits of its inputs, as the formula 5 a s^2 b assumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._masks import additive

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["bf16", "fp16"],
    proof={
        "cpu": {"ops": ["^aten::baddbmm$", "^aten::_softmax$"], "not": ["scaled_dot_product"]},
        "cuda": {
            "ops": ["^aten::baddbmm$", "^aten::_softmax$"],
            "kernels": ["(?i)softmax"],
            "not": ["scaled_dot_product", "flash", "fmha"],
        },
    },
)
def eager_16bit(spec: AttentionSpec) -> Any:
    """Scaled and masked matrix product in one, softmax, dropout, matrix product; what a backward needs is kept in 16 bits.

    For a heads, s tokens and b sequences autograd keeps, beside q, k and v, the weights (2 bytes each) and, under dropout, its mask (1
    byte) and the weights that it leaves (2 bytes): 5 a s^2 b bytes with dropout and 2 a s^2 b without (Korthikanti et al., 2022,
    arXiv:2205.05198, section 4.1). Where heads share keys, keys and values are repeated, which adds 4 a s d b bytes for heads of d.
    transformers' own eager code computes the softmax in fp32 and keeps 4 bytes of each weight more without dropout, 2 with it.
    """
    import torch
    from torch.nn import functional

    group = spec.heads // spec.kv_heads
    masks: dict[torch.device, torch.Tensor] = {}

    def mask_of(q: torch.Tensor) -> torch.Tensor:
        if q.device not in masks:
            hidden = torch.finfo(q.dtype).min
            masks[q.device] = additive(spec, q.device, q.dtype, hidden) if spec.mask != "full" else q.new_zeros(1, 1)
        return masks[q.device]

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys, values = (kv if group == 1 else kv.repeat_interleave(group, dim=1) for kv in (k, v))
        scores = torch.baddbmm(mask_of(q), q.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2), alpha=spec.scale)
        weights = functional.softmax(scores, dim=-1)
        if spec.dropout:
            # Not functional.dropout, which on a CPU keeps factors of 2 bytes in the place of a mask.
            weights = torch.native_dropout(weights, spec.dropout, True)[0]
        out = torch.bmm(weights, values.flatten(0, 1)).unflatten(0, q.shape[:2])
        return out.transpose(1, 2).contiguous().transpose(1, 2)

    attention.make_mask = mask_of  # type: ignore[attr-defined]
    return attention
