"""Lion with its one moment in 8 bits, from bitsandbytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._bitsandbytes import LION_TOLERANCE
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["bitsandbytes>=0.49"],
    dtypes=["fp32", "bf16"],
    passes=[Pass.STEP],
    proof={"ops": ["^bitsandbytes::optimizer_update_8bit_blockwise$"]},
)
def lion8bit_bnb(spec: OptimizerSpec) -> Recipe:
    """`bitsandbytes.optim.Lion8bit`: steps of one size by the sign of a momentum, kept in blocks of 256 with a dynamic code."""
    from bitsandbytes.optim import Lion8bit

    refuse_capture(spec, "bitsandbytes waits for the device after every tensor")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = Lion8bit(parameters, lr=spec.lr, betas=spec.lion_betas, weight_decay=spec.weight_decay)
        return made

    return Recipe("lion", make, tolerance=LION_TOLERANCE)
