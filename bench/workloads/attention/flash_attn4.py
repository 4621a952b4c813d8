"""FlashAttention-4, from the flash-attn-4 package: CuTe DSL kernels for Hopper and Blackwell, compiled at first use; no dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, Unsupported, implementation

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["flash-attn-4>=4.0.0b1"],
    devices=["cuda"],
    dtypes=["bf16", "fp16"],
    proof={
        "kernels": ["flash_attn_?cute|flash_attncute|FlashAttentionForward"],
        "not": ["pytorch_flash", "flash::flash_fwd", "cudnn.*(sdpa|attention)", "scaled_dot_product"],
    },
    refuses=["Unsupported compute capability", "not supported"],
)
def flash_attn4(spec: AttentionSpec) -> Any:
    from flash_attn.cute import flash_attn_func

    if spec.dropout > 0.0:
        raise Unsupported("FlashAttention-4 has no dropout")
    causal = spec.mask == "causal"

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), softmax_scale=spec.scale, causal=causal)
        if isinstance(out, tuple):  # releases differ: some return (out, logsumexp)
            out = out[0]
        return out.transpose(1, 2)

    return attention
