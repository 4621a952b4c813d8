"""AdamW of DeepSpeed as kernels that each update many tensors (FusedAdam): what DeepSpeed takes by itself on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["deepspeed>=0.18"],
    devices=["cuda"],
    dtypes=["fp32", "bf16", "fp16"],
    passes=[Pass.STEP],
    proof={"kernels": ["AdamFunctor"], "not": ["FusedAdamMathFunctor"]},
    builds=["fused_adam"],
)
def adamw_fused_deepspeed(spec: OptimizerSpec) -> Recipe:
    """`deepspeed.ops.adam.FusedAdam`: states in the dtype of the parameters, arithmetic in fp32."""
    import os

    from bench.workloads.offloading._operators import require_built

    refuse_capture(spec, "FusedAdam counts its steps on the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        os.environ.setdefault("DS_ACCELERATOR", parameters[0].device.type)
        require_built("fused_adam")
        from deepspeed.ops.adam import FusedAdam

        made: torch.optim.Optimizer = FusedAdam(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, adam_w_mode=True
        )
        return made

    return Recipe("adamw", make)
