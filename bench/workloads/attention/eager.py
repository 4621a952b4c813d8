"""Attention in plain PyTorch, step by step as transformers' `eager_attention_forward`; it keeps the whole score matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._masks import additive

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={
        "cpu": {"ops": ["^aten::bmm$", "^aten::_softmax$"], "not": ["scaled_dot_product", "^aten::baddbmm$"]},
        "cuda": {
            "ops": ["^aten::bmm$", "^aten::_softmax$"],
            # softmax_warp_forward for short rows, cunn_SoftMaxForward for long ones
            "kernels": ["(?i)softmax"],
            "not": ["scaled_dot_product", "flash", "fmha", "^aten::baddbmm$"],
        },
    },
)
def eager(spec: AttentionSpec) -> Any:
    """Matrix product, softmax in fp32, matrix product, as transformers' eager attention."""
    import torch
    from torch.nn import functional

    group = spec.heads // spec.kv_heads
    masks: dict[torch.device, torch.Tensor] = {}

    def additive_mask(q: torch.Tensor) -> torch.Tensor:
        # transformers makes it once per model forward and every layer reads it, so no layer pays for it.
        if q.device not in masks:
            masks[q.device] = additive(spec, q.device, q.dtype, torch.finfo(q.dtype).min)
        return masks[q.device]

    def repeat_kv(tensor: torch.Tensor) -> torch.Tensor:
        if group == 1:
            return tensor
        batch, kv_heads, length, head_dim = tensor.shape
        return (
            tensor[:, :, None].expand(batch, kv_heads, group, length, head_dim).reshape(batch, kv_heads * group, length, head_dim)
        )

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys, values = repeat_kv(k), repeat_kv(v)
        weights = torch.matmul(q, keys.transpose(2, 3)) * spec.scale
        if spec.mask != "full":
            weights = weights + additive_mask(q)
        weights = functional.softmax(weights, dim=-1, dtype=torch.promote_types(q.dtype, torch.float32)).to(q.dtype)
        weights = functional.dropout(weights, p=spec.dropout)
        return torch.matmul(weights, values).transpose(1, 2).contiguous().transpose(1, 2)

    if spec.mask != "full":
        attention.make_mask = additive_mask  # type: ignore[attr-defined]
    return attention
