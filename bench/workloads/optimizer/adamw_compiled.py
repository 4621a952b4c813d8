"""AdamW of torch, its step compiled by inductor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["CompiledFxGraph"], "not": ["_fused_adamw"]})
def adamw_compiled(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` with foreach under `torch.compile`: fused by the compiler, in as many kernels as it likes."""
    import torch

    refuse_capture(spec, "what is compiled counts its steps on the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        optimizer = torch.optim.AdamW(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, foreach=True, fused=False
        )
        optimizer.step = torch.compile(optimizer.step)  # type: ignore[method-assign]
        return optimizer

    return Recipe("adamw", make)
