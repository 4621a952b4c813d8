"""Liger-Kernel's SwiGLU: torch's own products, and a Triton kernel between them each way.

The backward makes the activation again instead of keeping it, and writes its gradients over gate and up. The function is called, and
not `LigerSwiGLUMLP`, because it takes a model's configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.swiglu._gated import MlpSpec, activation_module, with_activation

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    proof={
        "cpu": {"ops": ["^LigerSiLUMulFunction$"], "not": ["^aten::silu$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["^_swiglu_forward_kernel"], "not": ["^triton_", "^aten::silu$"]},
    },
    refuses=["exceeds the recommended Triton blocksize"],
)
def liger(spec: MlpSpec) -> Any:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    def activate(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = LigerSiLUMulFunction.apply(gate, up)
        return out

    def replace(module: torch.nn.Module) -> Any:
        if spec.part == "mlp":
            return with_activation(module, activate)
        alone = activation_module(activate)
        alone.overwrites_inputs = True
        return alone

    return replace
