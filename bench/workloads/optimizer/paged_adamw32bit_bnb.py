"""AdamW with fp32 moments in managed memory, from bitsandbytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._bitsandbytes import DECAY_LAST_TOLERANCE, require_room
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["bitsandbytes>=0.49"],
    devices=["cuda"],
    dtypes=["fp32", "bf16"],
    passes=[Pass.STEP],
    proof={"ops": ["^bitsandbytes::optimizer_update_32bit$"]},
)
def paged_adamw32bit_bnb(spec: OptimizerSpec) -> Recipe:
    """`bitsandbytes.optim.PagedAdamW32bit`: states of tensors from 1e5 elements on may be paged out to host memory; CUDA only."""
    from bitsandbytes.optim import PagedAdamW32bit

    refuse_capture(spec, "bitsandbytes waits for the device after every tensor")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        require_room(parameters, bytes_per_parameter=8)
        made: torch.optim.Optimizer = PagedAdamW32bit(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
        )
        return made

    return Recipe("adamw", make, tolerance=DECAY_LAST_TOLERANCE)
