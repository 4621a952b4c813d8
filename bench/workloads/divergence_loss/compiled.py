"""torch.compile of the plain divergences: everything between the log-probabilities and the loss in generated kernels."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.divergence_loss import DivergenceSpec
from bench.workloads.divergence_loss.eager import eager


@implementation(
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::kl_div$", "Liger"]},
        "cuda": {"kernels": ["^triton_(red|per|poi)_fused"], "not": ["^aten::kl_div$", "_jsd_kernel", "_kldiv_kernel"]},
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: DivergenceSpec) -> Any:
    import torch

    return torch.compile(eager.builder(spec), dynamic=False, fullgraph=True)
