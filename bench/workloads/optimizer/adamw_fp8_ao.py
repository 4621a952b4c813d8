"""AdamW with moments of 8-bit floats, from torchao."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch

TOLERANCE = 0.04
"""Three bits of mantissa, 2.6 % (root mean square) once a step and moment: measured 0.022 to 0.023 after the check's steps; not
quite twice that."""


@implementation(requires=["torchao>=0.17"], dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["CompiledFxGraph"]})
def adamw_fp8_ao(spec: OptimizerSpec) -> Recipe:
    """`torchao.optim.AdamWFp8`: both moments as float8_e4m3fn in blocks of 256; compiles its step, once a shape."""
    from torchao.optim import AdamWFp8

    refuse_capture(spec, "torchao counts its steps on the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = AdamWFp8(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
        )
        return made

    return Recipe("adamw", make, tolerance=TOLERANCE)
