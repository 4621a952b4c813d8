"""AdamW of torch, one tensor and one operation after the other."""

from __future__ import annotations

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe
from bench.workloads.optimizer._torch_adamw import torch_adamw


@implementation(
    dtypes=["fp32", "bf16", "fp16"], passes=[Pass.STEP], proof={"ops": ["^aten::addcdiv_$"], "not": ["_foreach_", "_fused_"]}
)
def adamw_forloop(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.AdamW` as a loop: the fewest temporaries of the unfused two."""
    return torch_adamw(spec, foreach=False, fused=False)
