"""Liger-Kernel's rotation, its Triton kernel: one program a token turns all heads of q and k where they lie, and their gradients alike.

The function is called, and not `liger_rotary_pos_emb`, because that chooses among several kernels by what is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.rope import RopeSpec

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    proof={
        "cpu": {"ops": ["^LigerRopeFunction$"], "not": ["^aten::cat$", "^aten::neg$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["^_triton_rope"], "not": ["^triton_", "^aten::cat$", "^aten::neg$"]},
    },
)
def liger(spec: RopeSpec) -> Any:
    from liger_kernel.ops.rope import LigerRopeFunction

    def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned: tuple[torch.Tensor, torch.Tensor] = LigerRopeFunction.apply(q, k, cos, sin)
        return turned

    rope.overwrites_inputs = rope.overwrites_gradient = True  # type: ignore[attr-defined]
    return rope
