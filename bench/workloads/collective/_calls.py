"""The calls of torch.distributed into memory that was made once, and what they must come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bench.declare import Bound
from bench.workloads.collective import CollectiveSpec
from bench.workloads.sharding import _group

if TYPE_CHECKING:
    import torch

Call = Callable[["torch.Tensor", "torch.Tensor"], None]
"""call(out, x): all_reduce sums `out`, which holds a copy of `x`, in place."""


def call_of(spec: CollectiveSpec) -> Call:
    """torch's own, on the default group; it waits for the collective on a CPU, and lets the stream wait on a device."""
    import torch.distributed as dist

    # Later releases have the same under new names, and warn of the old ones.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def all_reduce(out: torch.Tensor, x: torch.Tensor) -> None:
        dist.all_reduce(out)

    def all_gather(out: torch.Tensor, x: torch.Tensor) -> None:
        gather(out.view(-1), x)  # gloo takes flat wholes only

    def reduce_scatter(out: torch.Tensor, x: torch.Tensor) -> None:
        scatter(out, x.view(-1))

    return {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter}[spec.operation]


class Bidden:
    """The subject: keeps the output's memory, and has a fresh copy ready where a call uses its input up."""

    def __init__(self, spec: CollectiveSpec, call: Call) -> None:
        self._spec = spec
        self._call = call
        self._x: torch.Tensor | None = None
        self._out: torch.Tensor | None = None
        self._ready = 0

    def prepare(self, calls: int) -> None:
        """Before the first call nothing is known of the input, so that one makes ready for itself."""
        if self._x is not None:
            self._refill(self._x)
            self._ready = calls

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = inputs["x"]
        if self._x is not x or not self._ready:
            self._refill(x)
        self._ready = max(0, self._ready - 1)
        assert self._out is not None
        self._call(self._out, x)
        return {"out": self._out}

    def _refill(self, x: torch.Tensor) -> None:
        self._x = x
        if self._out is None:
            shape = (self._spec.part,) if self._spec.operation == "reduce_scatter" else (self._spec.ranks, self._spec.part)
            self._out = x.new_empty(shape)
        if self._spec.operation == "all_reduce":
            self._out.copy_(x)


def bound(spec: CollectiveSpec, call: Call) -> Bound:
    """Joins the ranks; a group of one rank, which nobody else had made, ends with the subject."""
    import torch
    import torch.distributed as dist

    ours = not dist.is_initialized()
    _group.join(torch.device(spec.device))
    subject = Bidden(spec, call)
    return Bound(subject, prepare=subject.prepare, close=dist.destroy_process_group if ours else None)


def expected(spec: CollectiveSpec, x: torch.Tensor) -> torch.Tensor:
    """What this rank is to get, from the inputs of all, added in the dtype of `x` on the host."""
    import torch
    import torch.distributed as dist

    mine = x.detach().cpu().contiguous()
    inputs = [torch.empty_like(mine) for _ in range(spec.ranks)]
    dist.all_gather(inputs, mine)
    every = torch.stack(inputs)
    if spec.operation != "all_gather":
        every = every.sum(0)
    if spec.operation == "reduce_scatter":
        every = every[_group.rank()]
    return every.to(x.device)
