"""AdamW of torch, the whole update in one kernel."""

from __future__ import annotations

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe
from bench.workloads.optimizer._torch_adamw import torch_adamw


@implementation(
    dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], proof={"ops": ["^aten::_fused_adamw_$"], "not": ["_foreach_addcdiv"]}
)
def adamw_fused(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` with fused=True: computes in fp32 and needs no temporaries."""
    return torch_adamw(spec, foreach=False, fused=True)
