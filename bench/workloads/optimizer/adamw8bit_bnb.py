"""AdamW with moments of 8 bits, from bitsandbytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._bitsandbytes import EIGHT_BIT_TOLERANCE
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["bitsandbytes>=0.49"],
    dtypes=["fp32", "bf16"],
    passes=[Pass.STEP],
    proof={"ops": ["^bitsandbytes::optimizer_update_8bit_blockwise$"]},
)
def adamw8bit_bnb(spec: OptimizerSpec) -> Recipe:
    """`bitsandbytes.optim.AdamW8bit`: both moments in blocks of 256 with a dynamic code; tensors below 4096 elements in fp32."""
    from bitsandbytes.optim import AdamW8bit

    refuse_capture(spec, "bitsandbytes waits for the device after every tensor")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = AdamW8bit(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
        )
        return made

    return Recipe("adamw", make, tolerance=EIGHT_BIT_TOLERANCE)
