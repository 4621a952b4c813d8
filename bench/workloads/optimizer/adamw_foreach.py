"""AdamW of torch, one operation on all tensors at a time."""

from __future__ import annotations

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe
from bench.workloads.optimizer._torch_adamw import torch_adamw


@implementation(
    dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], proof={"ops": ["^aten::_foreach_addcdiv_$"], "not": ["_fused_"]}
)
def adamw_foreach(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` with foreach, what it does by default on a GPU; needs a copy of all parameters meanwhile."""
    return torch_adamw(spec, foreach=True, fused=False)
