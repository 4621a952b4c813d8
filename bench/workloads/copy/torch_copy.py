"""torch's own copy kernel into memory that was allocated once, so that only the copy is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation

if TYPE_CHECKING:
    import torch

    from bench.workloads.copy import CopySpec


@implementation(dtypes=["fp32", "bf16", "fp16"], passes=["forward"], proof={"ops": ["^aten::copy_$"]})
def torch_copy(spec: CopySpec) -> Any:
    import torch

    place: list[torch.Tensor] = []

    def copy(x: torch.Tensor) -> torch.Tensor:
        if not place:
            place.append(torch.empty_like(x))
        return place[0].copy_(x)

    return copy
