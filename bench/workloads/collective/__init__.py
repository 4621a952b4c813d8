"""What a collective is: all ranks put a part in, and each gets a sum, or all parts. How fast that goes is what sharing a step pays with.

    all_reduce        every rank has the whole, and gets the sum of all wholes
    all_gather        every rank has its N-th, and gets the whole
    reduce_scatter    every rank has the whole, and gets its N-th of the sum

`bytes` are those of the whole, on each rank. The cost counts what each rank must send of it, going round a ring of N ranks:

    all_reduce                    2 (N - 1) / N * bytes
    all_gather, reduce_scatter      (N - 1) / N * bytes

That over the time is the bus bandwidth of NVIDIA's nccl-tests (their doc/PERFORMANCE.md derives the factors), which can be held against
what a link is sold as, whatever N. A rate here is that of all ranks together, as everywhere, so it is N times as much.

all_reduce works in place in torch: the whole is copied anew, untimed, before each call. Within a sample of several calls (short ones on a
CPU) a sum is summed again, which takes as long. The reference gathers the inputs of all ranks over gloo between the hosts' memories, and
adds there. Between phases ranks meet as they do for any subject; a single rank sends nothing.
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

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
SMALL = 1021
"""Elements of an N-th in the small check: no multiple of what kernels like."""
SLICE = 2**20


@dataclass(frozen=True, slots=True)
class CollectiveSpec:
    """`ranks` parts of `part` elements each are a whole."""

    operation: str
    part: int
    ranks: int
    dtype: str
    device: str
    """`cpu` or `cuda`."""

    @property
    def whole_bytes(self) -> int:
        return self.ranks * self.part * dtype_bytes(self.dtype)

    def bus_bytes(self) -> int:
        """What each rank must send, see the top of this file."""
        times = 2 if self.operation == "all_reduce" else 1
        return times * (self.ranks - 1) * self.part * dtype_bytes(self.dtype)


class Collective(Workload):
    name = "collective"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"collective": SlotKind.FUNCTION}
    params = (
        Param("operation", str, default="all_reduce", choices=OPERATIONS, description="what the ranks do"),
        Param("bytes", int, minimum=8, description="bytes of the whole: summed, gathered, or scattered"),
    )
    passes = (Pass.FORWARD,)

    def spec(self, case: Case) -> CollectiveSpec:
        params: Mapping[str, Any] = case.params
        size, element = int(params["bytes"]), dtype_bytes(case.dtype)
        if size % (element * case.world_size):
            raise ValueError(
                f"bytes must be a multiple of {element * case.world_size}: {case.world_size} ranks, {element} bytes a number"
            )
        device = case.device.removesuffix("-interpreter")
        return CollectiveSpec(str(params["operation"]), size // element // case.world_size, case.world_size, case.dtype, device)

    def cost(self, spec: CollectiveSpec, pass_: Pass) -> Cost:
        return Cost(bytes=spec.bus_bytes())

    def small_spec(self, spec: CollectiveSpec) -> CollectiveSpec:
        return dataclasses.replace(spec, part=min(spec.part, SMALL))

    def make_inputs(self, spec: CollectiveSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """What this rank puts in, other numbers on each: (ranks, part), or (part,) where it has one part only."""
        import torch

        shape = (spec.part,) if spec.operation == "all_gather" else (spec.ranks, spec.part)
        return {"x": fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator)}

    def redraw(self, spec: CollectiveSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        fill_normal(inputs["x"], generator)

    def bind(self, spec: CollectiveSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        from bench.workloads.collective._calls import bound

        return bound(spec, built["collective"])

    def reference(
        self, spec: CollectiveSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Only called by all ranks, which gather what each has put in."""
        from bench.workloads.collective._calls import expected

        return {"out": expected(spec, inputs["x"])}

    def slice(self, spec: CollectiveSpec) -> tuple[CollectiveSpec, Pick] | None:
        """The last elements of each part."""
        count = min(spec.part, SLICE)
        return dataclasses.replace(spec, part=count), lambda name, tensor: tensor[..., -count:]


WORKLOAD = Collective()
