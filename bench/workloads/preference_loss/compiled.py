"""torch.compile of the plain preference losses: products as they are, what follows them in generated kernels."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.preference_loss import PreferenceSpec
from bench.workloads.preference_loss.eager import eager


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::_?log_softmax$", "Liger"]},
        "cuda": {"kernels": ["^triton_(red|per|poi)_fused"], "not": ["^aten::_?log_softmax$", "Liger"]},
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: PreferenceSpec) -> Any:
    import torch

    return torch.compile(eager.builder(spec), dynamic=False, fullgraph=True)
