"""What a copy within one device's memory is: out = x, element by element. Its largest sizes show the bandwidth that is reached here.

A canary and a ceiling, like matmul: every byte is read once and written once, and both are counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass

if TYPE_CHECKING:
    import torch

SMALL = 4099
SLICE = 2**20


@dataclass(frozen=True, slots=True)
class CopySpec:
    """`elements` numbers of `dtype`, contiguous."""

    elements: int
    dtype: str


class Copy(Workload):
    name = "copy"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"copy": SlotKind.FUNCTION}
    params = (Param("elements", int, minimum=1, description="numbers to copy"),)
    passes = (Pass.FORWARD,)

    def spec(self, case: Case) -> CopySpec:
        params: Mapping[str, Any] = case.params
        return CopySpec(int(params["elements"]), case.dtype)

    def cost(self, spec: CopySpec, pass_: Pass) -> Cost:
        """No arithmetic; each element is read once and written once."""
        return Cost(flops=0, bytes=2 * spec.elements * dtype_bytes(spec.dtype))

    def small_spec(self, spec: CopySpec) -> CopySpec:
        return dataclasses.replace(spec, elements=min(spec.elements, SMALL))

    def make_inputs(self, spec: CopySpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        return {"x": fill_normal(torch.empty(spec.elements, dtype=torch_dtype(spec.dtype), device=device), generator)}

    def redraw(self, spec: CopySpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: CopySpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        copy = built["copy"]
        return Bound(lambda inputs: {"out": copy(inputs["x"])})

    def reference(
        self, spec: CopySpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"out": inputs["x"].clone()}

    def slice(self, spec: CopySpec) -> tuple[CopySpec, Pick] | None:
        """The last elements."""
        count = min(spec.elements, SLICE)
        return dataclasses.replace(spec, elements=count), lambda name, tensor: tensor[-count:]


WORKLOAD = Copy()
