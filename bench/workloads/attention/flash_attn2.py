"""FlashAttention-2, from the flash-attn package. It takes (batch, seq, heads, head_dim), so no copy is needed.

Windows are an argument; documents go through its interface for variable lengths.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._packed import packed

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["flash-attn>=2.5"],
    devices=["cuda"],
    dtypes=["bf16", "fp16"],
    # PyTorch's own build of the same kernels lives in the namespace pytorch_flash.
    proof={
        "kernels": ["(^|[^_a-zA-Z])flash::flash_fwd"],
        "not": ["pytorch_flash", "cudnn.*(sdpa|attention)", "scaled_dot_product", "FlashAttention(MLA)?Forward"],
    },
    refuses=["FlashAttention only supports", "only supports head dimension", "only has the kernels for head dimensions"],
)
def flash_attn2(spec: AttentionSpec) -> Any:
    from flash_attn import flash_attn_func, flash_attn_varlen_func

    options: dict[str, Any] = {"dropout_p": spec.dropout, "softmax_scale": spec.scale, "causal": spec.mask != "full"}
    if spec.mask == "document":
        return packed(functools.partial(flash_attn_varlen_func, **options), spec)
    if spec.window is not None:
        options["window_size"] = (spec.window - 1, 0)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options)
        return out.transpose(1, 2)

    return attention
