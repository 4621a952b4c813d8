"""The rotation as transformers' Llama writes it: a turned copy of each of q and k, two products and a sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.rope import RopeSpec, rotated

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::cat$", "^aten::neg$"], "not": ["Torch-Compiled Region", "Liger"]},
)
def eager(spec: RopeSpec) -> Any:
    def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return rotated(q, cos, sin), rotated(k, cos, sin)

    return rope
