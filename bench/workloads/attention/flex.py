"""torch's FlexAttention, compiled: a fused kernel generated for the mask. On a CPU it has no backward; it has no dropout.

torch 2.13 makes wrong kernels for CPUs without AVX-512 at a few small shapes (24 keys, head dimension 16): such rows are `incorrect`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, Unsupported, implementation
from bench.workloads.attention._masks import document_of_each_key

if TYPE_CHECKING:
    import torch


@implementation(
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["scaled_dot_product", "^aten::_?softmax$", "^aten::bmm$"]},
        # Inductor calls a kernel that it made from a template triton_tem_fused_<operators>_<n>: FlexAttention has the only template here.
        "cuda": {
            "kernels": ["triton_tem_fused"],
            "not": ["scaled_dot_product", "flash_fwd", "fmha", "cudnn.*(sdpa|attention)", "^aten::_?softmax$", "^aten::bmm$"],
        },
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

    def mask_on(device: torch.device) -> Callable[..., Any]:
        def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return key <= query + offset

        def window(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return (key <= query + offset) & (key > query + offset - spec.window)

        def same_document(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return (key <= query + offset) & (document[query + offset] == document[key])

        if spec.document_lengths is not None:
            document = document_of_each_key(spec, device)
            return same_document
        return causal if spec.window is None else window

    def block_mask(device: torch.device) -> Any:
        # Built once per mask and shared by all layers in a model, so it is no part of a call.
        if spec.mask != "full" and device not in block_masks:
            block_masks[device] = create_block_mask(mask_on(device), None, None, spec.seq_len, spec.kv_len, device=str(device))
        return block_masks.get(device)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = compiled(q, k, v, block_mask=block_mask(q.device), scale=spec.scale, enable_gqa=grouped)
        return out.transpose(1, 2).contiguous().transpose(1, 2)

    attention.make_mask = lambda q: block_mask(q.device)  # type: ignore[attr-defined]
    return attention
