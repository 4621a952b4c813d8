"""AdamW with moments of 4 bits, from torchao."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch

TOLERANCE = 0.2
"""Sixteen values a moment, in blocks of 128: measured 0.13 after the check's steps. Half as much again, below what beta 0.8 does
(0.24)."""


@implementation(requires=["torchao>=0.17"], dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["CompiledFxGraph"]})
def adamw4bit_ao(spec: OptimizerSpec) -> Recipe:
    """`torchao.optim.AdamW4bit`: both moments in blocks of 128 with sixteen values; compiles its step, once a shape."""
    from torchao.optim import AdamW4bit

    refuse_capture(spec, "torchao counts its steps on the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = AdamW4bit(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
        )
        return made

    return Recipe("adamw", make, tolerance=TOLERANCE)
