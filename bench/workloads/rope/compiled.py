"""The plain rotation compiled by torch.compile as a whole: generated kernels that turn q and k without a copy between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.rope import RopeSpec, rotated

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::cat$", "^aten::neg$", "Liger"]},
        "cuda": {"kernels": ["^triton_(per|red|poi)_fused_"], "not": ["^aten::cat$", "^aten::neg$", "_triton_rope"]},
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: RopeSpec) -> Any:
    import torch

    def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return rotated(q, cos, sin), rotated(k, cos, sin)

    return torch.compile(rope, fullgraph=True, dynamic=False)
