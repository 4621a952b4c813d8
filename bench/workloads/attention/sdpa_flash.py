"""torch's SDPA, flash backend: on CUDA PyTorch's own build of FlashAttention-2, on a CPU its tiled kernel (no dropout).

On a CPU windows and documents come as a resident matrix, see `_sdpa.py`; on CUDA SDPA refuses every matrix here.
"""

from __future__ import annotations

from typing import Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._sdpa import REFUSES, sdpa_with


@implementation(
    dtypes=["fp32", "bf16", "fp16", "fp64"],
    proof={
        "cpu": {"ops": ["^aten::_scaled_dot_product_flash_attention_for_cpu$"], "not": ["_attention_math"]},
        "cuda": {
            "ops": ["^aten::_scaled_dot_product_flash_attention$"],
            "kernels": ["pytorch_flash::"],
            "not": ["_attention_math", "fmha_cutlass", "mem_eff", "cudnn.*(sdpa|attention)"],
        },
    },
    refuses=REFUSES,
)
def sdpa_flash(spec: AttentionSpec) -> Any:
    return sdpa_with("FLASH_ATTENTION", spec)
