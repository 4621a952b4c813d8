"""torch's own matrix product: cuBLAS on CUDA, oneDNN or MKL on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation

if TYPE_CHECKING:
    from bench.workloads.matmul import MatmulSpec


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"], proof={"ops": ["^aten::mm$"]})
def torch_matmul(spec: MatmulSpec) -> Any:
    import torch

    return torch.matmul
