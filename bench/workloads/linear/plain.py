"""The plain `torch.nn.Linear` in the case's dtype: what every other layer is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation

if TYPE_CHECKING:
    import torch

    from bench.workloads.linear import LinearSpec


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    passes=["forward", "backward", "forward_backward"],
    proof={"ops": ["^aten::(linear|mm|addmm)$"], "not": ["_int_mm", "_scaled_mm", "quantize", "bitsandbytes", "torchao"]},
)
def plain(spec: LinearSpec) -> Any:
    """The plain `torch.nn.Linear` itself, untouched."""

    def keep(module: torch.nn.Linear) -> torch.nn.Module:
        return module

    return keep
