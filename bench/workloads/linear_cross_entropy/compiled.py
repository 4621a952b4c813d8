"""torch.compile of what transformers writes: matrix products as they are, the fp32 copy and the loss in generated kernels."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec
from bench.workloads.linear_cross_entropy.eager import eager


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "Liger", "InChunks"]},
        "cuda": {
            "kernels": ["^triton_(red|per|poi)_fused"],
            "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "liger_cross_entropy_kernel", "InChunks"],
        },
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: LinearCrossEntropySpec) -> Any:
    import torch

    return torch.compile(eager.builder(spec), dynamic=False, fullgraph=True)
