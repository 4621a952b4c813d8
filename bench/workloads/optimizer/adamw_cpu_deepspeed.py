"""AdamW of DeepSpeed for states in host memory: vector instructions of the CPU, in as many threads as torch has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import Unsupported, implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe, refuse_capture

if TYPE_CHECKING:
    import torch


@implementation(requires=["deepspeed>=0.18"], dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], builds=["cpu_adam"])
def adamw_cpu_deepspeed(spec: OptimizerSpec) -> Recipe:
    """`deepspeed.ops.adam.DeepSpeedCPUAdam`: states in fp32; what it updates must lie in host memory when it steps."""
    import os

    from bench.workloads.offloading._operators import require_built

    refuse_capture(spec, "DeepSpeedCPUAdam computes on the host")

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        device = parameters[0].device.type
        if spec.shapes and device != "cpu":
            raise Unsupported("DeepSpeedCPUAdam updates what lies in host memory; measured alone on a GPU it has nothing to update")
        os.environ.setdefault("DS_ACCELERATOR", device)
        require_built("cpu_adam")
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        made: torch.optim.Optimizer = DeepSpeedCPUAdam(
            parameters, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, adamw_mode=True
        )
        return made

    return Recipe("adamw", make)
