"""torch's SDPA, memory-efficient backend: CUTLASS kernels that came from xFormers. CUDA only.

It has no grouped heads (torch 2.11 refuses them), so keys and values are repeated first, as transformers does, and it pays for that.
Windows and documents come as a resident matrix, see `_sdpa.py`.
"""

from __future__ import annotations

from typing import Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._sdpa import REFUSES, sdpa_with


@implementation(
    devices=["cuda"],
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    proof={
        "ops": ["^aten::_scaled_dot_product_efficient_attention$"],
        "kernels": ["fmha_cutlass|mem_eff|AttentionKernel"],
        "not": ["flash", "cudnn.*(sdpa|attention)"],
    },
    refuses=REFUSES,
)
def sdpa_efficient(spec: AttentionSpec) -> Any:
    return sdpa_with("EFFICIENT_ATTENTION", spec, grouped_heads=False)
