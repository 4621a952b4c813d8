"""torch's SDPA, cuDNN backend: graphs that cuDNN builds and compiles at first use. CUDA only.

Windows and documents come as a resident matrix, see `_sdpa.py`.
"""

from __future__ import annotations

from typing import Any

from bench.declare import AttentionSpec, implementation
from bench.workloads.attention._sdpa import REFUSES, sdpa_with


@implementation(
    devices=["cuda"],
    dtypes=["bf16", "fp16"],
    proof={
        "ops": ["^aten::_scaled_dot_product_cudnn_attention$"],
        "kernels": ["cudnn.*(sdpa|attention)"],
        "not": ["flash_fwd", "flash_bwd", "fmha_cutlass", "mem_eff", "_attention_math"],
    },
    refuses=(*REFUSES, "cuDNN Frontend error", "No valid engine configs", "No execution plans support the graph"),
)
def sdpa_cudnn(spec: AttentionSpec) -> Any:
    return sdpa_with("CUDNN_ATTENTION", spec)
