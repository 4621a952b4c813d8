"""torch's own `torch.nn.RMSNorm`, which calls `torch.nn.functional.rms_norm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import NormSpec, implementation

if TYPE_CHECKING:
    import torch


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"], proof={"ops": ["^aten::rms_norm$"]})
def torch_native(spec: NormSpec) -> Any:
    """`torch.nn.RMSNorm` with the plain module's weight."""
    import torch

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        native = torch.nn.RMSNorm(spec.hidden_size, eps=spec.eps, device="meta")
        assert isinstance(module.weight, torch.nn.Parameter)
        native.weight = module.weight
        return native

    return replace
