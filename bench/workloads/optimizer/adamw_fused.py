"""AdamW of torch, the whole update in one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], proof={"ops": ["^aten::_fused_adamw_$"], "not": ["_foreach_addcdiv"]}
)
def adamw_fused(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` with fused=True: computes in fp32 and needs no temporaries."""
    import torch

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters,
            lr=spec.lr,
            betas=spec.betas,
            eps=spec.eps,
            weight_decay=spec.weight_decay,
            foreach=False,
            fused=True,
            capturable=spec.capturable,
        )

    return Recipe("adamw", make)
