"""torch.compile of what transformers writes: the fp32 copy, the softmax and the loss in generated kernels, the copy never in memory."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.cross_entropy import CrossEntropySpec
from bench.workloads.cross_entropy.eager import eager


@implementation(
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "LigerCrossEntropy"]},
        "cuda": {
            "kernels": ["^triton_(red|per|poi)_fused"],
            "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "liger_cross_entropy_kernel"],
        },
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: CrossEntropySpec) -> Any:
    import torch

    return torch.compile(eager.builder(spec), dynamic=False, fullgraph=True)
