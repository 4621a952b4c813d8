"""AdamW of torch, one operation on all tensors at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], proof={"ops": ["^aten::_foreach_addcdiv_$"], "not": ["_fused_"]}
)
def adamw_foreach(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` with foreach, what it does by default on a GPU; needs a copy of all parameters meanwhile."""
    import torch

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters,
            lr=spec.lr,
            betas=spec.betas,
            eps=spec.eps,
            weight_decay=spec.weight_decay,
            foreach=True,
            fused=False,
            capturable=spec.capturable,
        )

    return Recipe("adamw", make)
