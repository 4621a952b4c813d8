"""Liger-Kernel's RMSNorm, its Triton kernels: one a direction, with the statistics of each row kept for the backward.

The function is called, and not `LigerRMSNorm` or the dispatcher, because those choose among several kernels by what is installed. As
that module does by default, the backward writes over the gradient that it is given. The weight's gradient is summed in fp32 by each
multiprocessor, and then over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import NormSpec, implementation

if TYPE_CHECKING:
    import torch

IN_PLACE = True


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    proof={
        "cpu": {"ops": ["^LigerRMSNormFunction$"], "not": ["^aten::rsqrt$", "^aten::rms_norm$", "Torch-Compiled Region"]},
        "cuda": {
            # Wide rows have a program each; of narrow ones many rows share one.
            "kernels": ["^_(block_)?rms_norm_forward_kernel"],
            "not": ["^triton_", "^aten::rsqrt$", "^aten::rms_norm$", "fused_add_rms_norm", "layer_norm"],
        },
    },
    refuses=["exceeds the recommended Triton blocksize", "doesn't support feature dim"],
)
def liger(spec: NormSpec) -> Any:
    import torch
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    class LigerRmsNorm(torch.nn.Module):
        """Llama's way of rounding: statistics in fp32, the product with the weight in the dtype of x."""

        overwrites_gradient = IN_PLACE

        def __init__(self, weight: torch.nn.Parameter) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = LigerRMSNormFunction.apply(x, self.weight, spec.eps, 0.0, "llama", IN_PLACE)
            return out

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        assert isinstance(module.weight, torch.nn.Parameter)
        return LigerRmsNorm(module.weight)

    return replace
