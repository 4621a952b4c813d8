"""SGD of torch with momentum: one state, and the least arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch


@implementation(dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["^aten::_foreach_add_$"], "not": ["_fused_"]})
def sgd(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.SGD` with momentum and foreach."""
    import torch

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            parameters, lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay, foreach=True, fused=False
        )

    return Recipe("sgd", make)
