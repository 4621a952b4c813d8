"""The gated MLP as transformers' LlamaMLP writes it: torch's own products and SiLU, and a product of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.swiglu._gated import MlpSpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::silu$", "^aten::mul$"], "not": ["Torch-Compiled Region", "Liger"]},
)
def eager(spec: MlpSpec) -> Any:
    """The plain module itself, untouched."""

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        return module

    return replace
