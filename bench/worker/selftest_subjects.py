"""A lone-file plug-in for `bench selftest`: subjects of which everything is known beforehand.

All of them return their input, so that the check against the reference holds; what differs is what they do besides:

    nothing         nothing: on CUDA the event pair alone is left, which is the timer's zero
    empty           launches one kernel that does nothing (CUDA)
    spin            keeps the device busy for `seconds`: by `%globaltimer` on CUDA, by the raw monotonic clock on a CPU,
                    each another clock than the one that times
    copy_and_spin   copies its input, then spins for `seconds`: real work with a slow-down of known length (CUDA)
    allocate        holds `first_bytes` and `second_bytes` at once, then `third_bytes`: the peak is the sum of the first two

It lies in the worker's room because it uses the worker's kernels. Trials name it by its path, as they name anybody's plug-in, so
`bench list` does not show it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, implementation
from bench.records import Case, Cost, Pass

if TYPE_CHECKING:
    import torch

LONGEST_SMALL_SPIN_S = 100e-6
FEWEST_ELEMENTS = 1024

Call = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True, slots=True)
class SelftestSpec:
    """x has `elements` fp32 numbers. A subject uses those of the other fields that it is about."""

    device: str
    elements: int
    seconds: float
    first_bytes: int
    second_bytes: int
    third_bytes: int


class Selftest(Workload):
    """Calls whose length and memory are known beforehand."""

    name = "selftest"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"selftest": SlotKind.FUNCTION}
    params = (
        Param("elements", int, default=FEWEST_ELEMENTS, minimum=1, description="fp32 numbers of the input"),
        Param("seconds", float, default=0.0, minimum=0.0, description="length of a spin"),
        Param("first_bytes", int, default=0, minimum=0, description="first allocation"),
        Param("second_bytes", int, default=0, minimum=0, description="second allocation, beside the first"),
        Param("third_bytes", int, default=0, minimum=0, description="third allocation, after the others are given back"),
    )
    passes = (Pass.FORWARD,)

    def spec(self, case: Case) -> SelftestSpec:
        given: Mapping[str, Any] = case.params
        return SelftestSpec(
            device=case.device,
            elements=int(given["elements"]),
            seconds=float(given["seconds"]),
            first_bytes=int(given["first_bytes"]),
            second_bytes=int(given["second_bytes"]),
            third_bytes=int(given["third_bytes"]),
        )

    def cost(self, spec: SelftestSpec, pass_: Pass) -> Cost:
        """None: a subject's time is given, not its work."""
        return Cost()

    def small_spec(self, spec: SelftestSpec) -> SelftestSpec:
        return dataclasses.replace(
            spec, elements=min(spec.elements, FEWEST_ELEMENTS), seconds=min(spec.seconds, LONGEST_SMALL_SPIN_S)
        )

    def make_inputs(self, spec: SelftestSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        return {"x": torch.randn(spec.elements, generator=generator, device=generator.device).to(device)}

    def bind(self, spec: SelftestSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        call: Call = built["selftest"]
        return Bound(lambda inputs: {"out": call(inputs["x"])})

    def reference(
        self, spec: SelftestSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"out": inputs["x"].clone()}

    def slice(self, spec: SelftestSpec) -> tuple[SelftestSpec, Pick] | None:
        """The last elements."""
        count = min(spec.elements, FEWEST_ELEMENTS)
        return dataclasses.replace(self.small_spec(spec), elements=count), lambda name, tensor: tensor[-count:]


WORKLOAD = Selftest()


@implementation(workload="selftest", dtypes=["fp32"], passes=["forward"])
def nothing(spec: SelftestSpec) -> Call:
    """Returns its input."""
    return lambda x: x


@implementation(workload="selftest", devices=["cuda"], dtypes=["fp32"], passes=["forward"])
def empty(spec: SelftestSpec) -> Call:
    """Launches one kernel that does nothing."""
    from bench.worker.empty_kernel import empty as kernel

    def call(x: torch.Tensor) -> torch.Tensor:
        kernel[(1,)](x, num_warps=1)
        return x

    return call


@implementation(workload="selftest", dtypes=["fp32"], passes=["forward"])
def spin(spec: SelftestSpec) -> Call:
    """Keeps the device busy for `seconds`."""
    busy = _spinner(spec)

    def call(x: torch.Tensor) -> torch.Tensor:
        busy()
        return x

    return call


@implementation(workload="selftest", devices=["cuda"], dtypes=["fp32"], passes=["forward"])
def copy_and_spin(spec: SelftestSpec) -> Call:
    """Copies its input into memory that was allocated once, then spins for `seconds`."""
    import torch

    busy = _spinner(spec)
    place: list[torch.Tensor] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        if not place:
            place.append(torch.empty_like(x))
        place[0].copy_(x)
        busy()
        return place[0]

    return call


@implementation(workload="selftest", dtypes=["fp32"], passes=["forward"])
def allocate(spec: SelftestSpec) -> Call:
    """Holds two allocations at once, gives them back, then holds a third one."""
    import torch

    def call(x: torch.Tensor) -> torch.Tensor:
        first = torch.empty(spec.first_bytes, dtype=torch.uint8, device=x.device)
        second = torch.empty(spec.second_bytes, dtype=torch.uint8, device=x.device)
        del first, second
        torch.empty(spec.third_bytes, dtype=torch.uint8, device=x.device)
        return x

    return call


def _spinner(spec: SelftestSpec) -> Callable[[], None]:
    """A busy wait of `seconds`."""
    nanoseconds = round(spec.seconds * 1e9)
    if spec.device == "cuda":
        import torch

        from bench.worker.cuda_kernels import spin as kernel

        waited = torch.zeros(1, dtype=torch.int64, device="cuda")

        def on_the_device() -> None:
            kernel[(1,)](waited, nanoseconds, num_warps=1)

        return on_the_device
    # perf_counter is the clock that times; this one is read from the same counter, but no time service ever slews it.
    clock_ns, raw = time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW

    def on_the_host() -> None:
        end = clock_ns(raw) + nanoseconds
        while clock_ns(raw) < end:
            pass

    return on_the_host
