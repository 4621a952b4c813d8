"""An addition, then torch's own fused `rms_norm`: two kernels, since torch has none for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import NormSpec, implementation

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::rms_norm$", "^aten::add$"], "not": ["Torch-Compiled Region", "Liger"]},
)
def torch_native(spec: NormSpec) -> Any:
    import torch

    class AddThenNorm(torch.nn.Module):
        def __init__(self, weight: torch.nn.Parameter) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            total = residual + x
            return torch.nn.functional.rms_norm(total, (spec.hidden_size,), self.weight, spec.eps), total

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        assert isinstance(module.weight, torch.nn.Parameter)
        return AddThenNorm(module.weight)

    return replace
