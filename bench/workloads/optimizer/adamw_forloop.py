"""AdamW of torch, one tensor and one operation after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], proof={"ops": ["^aten::addcdiv_$"], "not": ["_foreach_", "_fused_"]}
)
def adamw_forloop(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` as a loop: the fewest temporaries of the unfused two."""
    import torch

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters,
            lr=spec.lr,
            betas=spec.betas,
            eps=spec.eps,
            weight_decay=spec.weight_decay,
            foreach=False,
            fused=False,
            capturable=spec.capturable,
        )

    return Recipe("adamw", make)
