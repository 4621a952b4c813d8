"""torch's SDPA, math backend: the composite of plain operations, with the whole score matrix.

Windows and documents come as a resident matrix, see `_sdpa.py`.
"""

from __future__ import annotations

from typing import Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._sdpa import REFUSES, sdpa_with


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={
        "ops": ["^aten::_scaled_dot_product_attention_math$"],
        "not": ["flash", "fmha", "mem_eff", "_efficient_attention", "cudnn.*(sdpa|attention)"],
    },
    refuses=REFUSES,
)
def sdpa_math(spec: AttentionSpec) -> Any:
    return sdpa_with("MATH", spec)
