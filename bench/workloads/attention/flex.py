"""torch's FlexAttention, compiled: a fused kernel generated for the mask. On a CPU it has no backward; it has no dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, Unsupported, implementation

if TYPE_CHECKING:
    import torch


@implementation(
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["scaled_dot_product", "^aten::_?softmax$", "^aten::bmm$"]},
        "cuda": {"kernels": ["triton_.*flex_attention|triton_tem_fused"], "not": ["scaled_dot_product", "pytorch_flash", "fmha"]},
    },
    refuses=["FlexAttention does not support backward on CPU", "InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def flex(spec: AttentionSpec) -> Any:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if spec.dropout > 0.0:
        raise Unsupported("FlexAttention has no dropout")
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    grouped = spec.heads != spec.kv_heads
    offset = spec.kv_len - spec.seq_len
    block_masks: dict[torch.device, Any] = {}

    def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return key <= query + offset

    def block_mask(device: torch.device) -> Any:
        # Built once per mask and shared by all layers in a model, so it is no part of a call.
        if spec.mask == "causal" and device not in block_masks:
            block_masks[device] = create_block_mask(causal, None, None, spec.seq_len, spec.kv_len, device=str(device))
        return block_masks.get(device)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = compiled(q, k, v, block_mask=block_mask(q.device), scale=spec.scale, enable_gqa=grouped)
        return out.transpose(1, 2).contiguous().transpose(1, 2)

    return attention
