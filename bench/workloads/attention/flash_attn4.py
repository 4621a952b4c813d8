"""FlashAttention-4, from the flash-attn-4 package: CuTe DSL kernels for Hopper and Blackwell, compiled at first use; no dropout.

Windows are an argument; documents go through its interface for variable lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import AttentionSpec, Unsupported, implementation
from bench.workloads.attention._packed import packed

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["flash-attn-4>=4.0.0b1"],
    devices=["cuda"],
    dtypes=["bf16", "fp16"],
    # The DSL mangles module and class into the name: kernel_cutlass_kernel_flash_attncuteflash_fwd_sm90FlashAttentionForwardSm90_...
    proof={
        "kernels": [r"flash_attn_?cute_?flash_fwd\w*FlashAttention(MLA)?Forward"],
        "not": ["pytorch_flash", "flash::flash_fwd", "cudnn.*(sdpa|attention)", "scaled_dot_product", "Torch-Compiled Region"],
    },
    # What its interface says of a GPU generation: of all it "does not support", nothing else is about what is asked for here.
    refuses=["Unsupported compute capability", r"not supported on SM ?\d"],
)
def flash_attn4(spec: AttentionSpec) -> Any:
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    if spec.dropout > 0.0:
        raise Unsupported("FlashAttention-4 has no dropout")
    options: dict[str, Any] = {"softmax_scale": spec.scale, "causal": spec.mask != "full"}
    if spec.window is not None:
        options["window_size"] = (spec.window - 1, 0)

    def output(returned: Any) -> Any:
        return returned[0] if isinstance(returned, tuple) else returned  # releases differ: some return (out, logsumexp)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = output(flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options))
        return out.transpose(1, 2)

    def documents(*rows: torch.Tensor, **boundaries: Any) -> Any:
        return output(flash_attn_varlen_func(*rows, **boundaries, **options))

    return packed(documents, spec) if spec.mask == "document" else attention
