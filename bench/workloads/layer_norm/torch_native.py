"""torch's own fused kernel, `torch.nn.LayerNorm`: what most models of transformers call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import NormSpec, implementation

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::native_layer_norm$"], "not": ["^aten::rsqrt$", "Torch-Compiled Region", "Liger"]},
)
def torch_native(spec: NormSpec) -> Any:
    """`torch.nn.LayerNorm` with the plain module's weight and bias."""
    import torch

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        native = torch.nn.LayerNorm(spec.hidden_size, eps=spec.eps, device="meta")
        assert isinstance(module.weight, torch.nn.Parameter)
        assert isinstance(module.bias, torch.nn.Parameter)
        native.weight, native.bias = module.weight, module.bias
        return native

    return replace
