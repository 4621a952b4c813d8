"""What moving one block between the device and a place outside it is: which way, to which place, and that every byte arrives.

    to_host      from a tensor on the device to the place
    to_device    from the place, where the block lies already, to a tensor on the device

A builder returns a `Place`, which can `store` a block and `load` it again. One of the two is timed; the other makes ready or looks
after, untimed. Both may leave work on the current stream and must need nothing of ours but that the stream is waited for.

Bandwidth is the block's bytes by the time: each byte counts once, as links are sold. Small blocks show the latency. Files and
pageable memory keep the host busy while they move, so the host's clock is the right one (`timer: wall`): it ends when the device is
idle. The place is made by the builder; to the device, the first call also fills it, and that is what `compile_*_s` holds here.

On a CPU the device is RAM itself. Then only places that are not the device's own memory are of any use, and these numbers say
something about the code, and about the disk, but nothing about a bus.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Check, Cost, Pass
from bench.workloads.offload._place import Move, OffloadSpec, Place, to_device, to_host

if TYPE_CHECKING:
    import torch

__all__ = ["WORKLOAD", "OffloadSpec", "Place"]

SMALL_BYTES = 20_008
"""Small, and no multiple of a page or of a disk's block."""


class Offload(Workload):
    name = "offload"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"offload": SlotKind.FUNCTION}
    params = (
        Param("bytes", int, minimum=8, description="bytes of the block"),
        Param("direction", str, default="to_device", choices=("to_device", "to_host"), description="which way it is moved"),
    )
    passes = (Pass.FORWARD,)

    def spec(self, case: Case) -> OffloadSpec:
        params: Mapping[str, Any] = case.params
        size = int(params["bytes"])
        if size % dtype_bytes(case.dtype):
            raise ValueError(f"bytes must be a multiple of {dtype_bytes(case.dtype)}, the size of a number in {case.dtype}")
        device = case.device.removesuffix("-interpreter")
        return OffloadSpec(size, str(params["direction"]), case.dtype, device)

    def cost(self, spec: OffloadSpec, pass_: Pass) -> Cost:
        """Each byte crosses once."""
        return Cost(bytes=spec.bytes)

    def small_spec(self, spec: OffloadSpec) -> OffloadSpec:
        return dataclasses.replace(spec, bytes=SMALL_BYTES)

    def make_inputs(self, spec: OffloadSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """The block, on the device."""
        import torch

        elements = spec.bytes // dtype_bytes(spec.dtype)
        return {"block": fill_normal(torch.empty(elements, dtype=torch_dtype(spec.dtype), device=device), generator)}

    def redraw(self, spec: OffloadSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        fill_normal(inputs["block"], generator)

    def bind(self, spec: OffloadSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        place: Place = built["offload"]
        return to_host(place) if spec.direction == "to_host" else to_device(place)

    def reference(
        self, spec: OffloadSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The block as it was."""
        return {"out": inputs["block"].clone()}

    def slice(self, spec: OffloadSpec) -> tuple[OffloadSpec, Pick] | None:
        """The last bytes, as many as a small block has: what is lost on the way is mostly the end."""
        size = min(spec.bytes, SMALL_BYTES)
        elements = size // dtype_bytes(spec.dtype)
        return dataclasses.replace(spec, bytes=size), lambda _, tensor: tensor[-elements:]

    def property_checks(
        self, spec: OffloadSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator
    ) -> list[Check]:
        """Not nearly but exactly what was stored comes back, also when the block has other numbers by then; in the detail, what the
        place is."""
        import torch

        bound = bind(self.small_spec(spec))
        assert isinstance(bound, Move)
        inputs = self.make_inputs(self.small_spec(spec), device, generator)
        checks = []
        for name in ("every_byte", "every_byte_again"):
            stored = inputs["block"].clone()
            bound.place.store(inputs["block"])
            self.redraw(self.small_spec(spec), inputs, generator)
            out = torch.empty_like(stored)
            bound.place.load(out)
            same = out.equal(stored)
            checks.append(Check(name, "small", float(not same), 0.0, 0.0, same, bound.place.describe()))
        return checks


WORKLOAD = Offload()
