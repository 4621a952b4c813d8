"""Liger-Kernel's fused addition and RMSNorm, its Triton kernels: one a direction; both inputs get the same tensor as their gradient.

The function is called, and not `LigerFusedAddRMSNorm` or the dispatcher, because those choose among several kernels by what is
installed. As that module does by default, nothing is overwritten.
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
        "cpu": {"ops": ["^LigerFusedAddRMSNormFunction$"], "not": ["^aten::rsqrt$", "^aten::rms_norm$", "Torch-Compiled Region"]},
        "cuda": {
            "kernels": ["^_fused_add_rms_norm_forward_kernel"],
            "not": ["^triton_", "^aten::rsqrt$", "^aten::rms_norm$", "^_(block_)?rms_norm_", "layer_norm"],
        },
    },
    refuses=["exceeds the recommended Triton blocksize", "doesn't support feature dim"],
)
def liger(spec: NormSpec) -> Any:
    import torch
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    class LigerAddRmsNorm(torch.nn.Module):
        """Llama's way of rounding: statistics in fp32, the product with the weight in the dtype of x."""

        def __init__(self, weight: torch.nn.Parameter) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            both: tuple[torch.Tensor, torch.Tensor] = LigerFusedAddRMSNormFunction.apply(
                x, residual, self.weight, spec.eps, 0.0, "llama", False
            )
            return both

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        assert isinstance(module.weight, torch.nn.Parameter)
        return LigerAddRmsNorm(module.weight)

    return replace
