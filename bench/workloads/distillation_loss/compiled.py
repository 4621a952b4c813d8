"""torch.compile of the plain distillation loss: products as they are, all that lies between them in generated kernels."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.distillation_loss import DistillationSpec
from bench.workloads.distillation_loss.eager import eager


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::_?log_softmax$", "^aten::kl_div$", "Liger"]},
        "cuda": {
            "kernels": ["^triton_(red|per|poi)_fused"],
            "not": ["^aten::_?log_softmax$", "^aten::kl_div$", "Liger", "_jsd_kernel"],
        },
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: DistillationSpec) -> Any:
    import torch

    return torch.compile(eager.builder(spec), dynamic=False, fullgraph=True)
