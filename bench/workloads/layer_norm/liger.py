"""Liger-Kernel's layer normalisation, its Triton kernels: one a direction, with mean and deviation of each row kept in fp32.

The function is called, and not `LigerLayerNorm`, because that chooses among several kernels by what is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import NormSpec, implementation

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    proof={
        "cpu": {
            "ops": ["^LigerLayerNormFunction$"],
            "not": ["^aten::rsqrt$", "^aten::native_layer_norm$", "Torch-Compiled Region"],
        },
        "cuda": {
            "kernels": ["^_layer_norm_forward_kernel"],
            "not": ["^triton_", "^aten::rsqrt$", "^aten::native_layer_norm$", "rms_norm"],
        },
    },
    refuses=["exceeds the recommended Triton blocksize", "exceeds maximum supported size"],
)
def liger(spec: NormSpec) -> Any:
    import torch
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    class LigerLayerNorm(torch.nn.Module):
        def __init__(self, weight: torch.nn.Parameter, bias: torch.nn.Parameter) -> None:
            super().__init__()
            self.weight = weight
            self.bias = bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = LigerLayerNormFunction.apply(x, self.weight, self.bias, spec.eps)
            return out

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        assert isinstance(module.weight, torch.nn.Parameter)
        assert isinstance(module.bias, torch.nn.Parameter)
        return LigerLayerNorm(module.weight, module.bias)

    return replace
