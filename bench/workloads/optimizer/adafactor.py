"""Adafactor of torch: of the second moment only means of rows and columns, and no first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["^aten::rsqrt_$", "^aten::lerp_$"], "not": ["_foreach_"]}
)
def adafactor(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.Adafactor` as a loop, its default: next to no state, and three waits for the device a tensor."""
    import torch

    refuse_capture(spec, "Adafactor reads norms back to the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Adafactor(parameters, lr=spec.lr, weight_decay=spec.weight_decay, foreach=False)

    return Recipe("adafactor", make)
