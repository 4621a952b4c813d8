"""AdamW with moments of 8 bits, from torchao."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch

TOLERANCE = 0.025
"""The code of bitsandbytes, and its errors: measured 0.010 to 0.014 after the check's steps; not quite twice that."""


@implementation(requires=["torchao>=0.17"], dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["CompiledFxGraph"]})
def adamw8bit_ao(spec: OptimizerSpec) -> Recipe:
    """`torchao.optim.AdamW8bit`: both moments in blocks of 256 with a dynamic code; compiles its step, once a shape."""
    from torchao.optim import AdamW8bit

    refuse_capture(spec, "torchao counts its steps on the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = AdamW8bit(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
        )
        return made

    return Recipe("adamw", make, tolerance=TOLERANCE)
