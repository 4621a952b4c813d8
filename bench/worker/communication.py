"""What one call sends between ranks, by collective, and how much of it nothing hides: read from the profiler, in a pass of its own.

Collectives pass torch's dispatcher as operators (`c10d::...`), whoever calls them: DistributedDataParallel's reducer, fully_shard,
DeepSpeed. Their inputs say which tensors. `<collective>_bytes` counts the whole that ranks sum or gather, on whichever rank its parts
lie. `communicated_bytes` is what each rank must send of it if collectives go round a ring of N:

    all_reduce                                    2 (N - 1) / N * whole
    all_gather, reduce_scatter, all_to_all          (N - 1) / N * whole
    reduce, broadcast                                             whole

Time: a collective is under way from its start to its end on this rank (gloo's own spans on a CPU, NCCL's kernels on CUDA), waiting for a
rank that is late included. It is exposed while this rank computes nothing: no operator on a CPU, no other kernel on CUDA. Under a
profiler calls are slower and collectives are not, so the share is a little too low, if anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from bench.metrics import COLLECTIVES, METRICS
from bench.records import Json, Measurement
from bench.worker.step import PASS_MARK, Step

_KINDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
}
"""What an operator's name begins with, underscores left out, and the kind; the longest that fits counts."""
_PARTS_ONLY = ("c10d::allgather_", "c10d::reduce_scatter_")
"""Operators whose whole is a list of lists, which the profiler does not follow: N times the part that it sees."""
_NO_TRAFFIC = ("barrier", "wait", "monitored")

Span = tuple[int, int]


def communication(step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
    """One call's `<collective>_bytes`, `communicated_bytes`, `communication_s` and `exposed_communication_share`.

    Nothing where no process group is. Among the facts `collectives`: how often each was called, and `collectives_not_counted`.
    """
    if not dist.is_initialized():
        return (), {}
    cuda = torch.cuda.is_initialized()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        step.prepare()
        if cuda:
            torch.cuda.synchronize()
        with torch.profiler.record_function(PASS_MARK):
            kept = step()
            if cuda:
                torch.cuda.synchronize()
    del kept
    results = profile.profiler.kineto_results
    whole, calls, unknown = count(results.experimental_event_tree(), dist.get_world_size())
    values = {f"{kind}_bytes": float(size) for kind, size in whole.items()}
    values["communicated_bytes"] = sum(sent(kind, size, dist.get_world_size()) for kind, size in whole.items())
    spans = timeline(results.events(), cuda=cuda)
    if spans is not None:
        length, communicating, computing = spans
        values["communication_s"] = covered(communicating) * 1e-9
        values["exposed_communication_share"] = exposed(communicating, computing) / length
    measurements = tuple(Measurement(name, METRICS[name].unit, (value,)) for name, value in values.items())
    facts: dict[str, Json] = {"collectives": calls}
    return measurements, facts | ({"collectives_not_counted": sorted(unknown)} if unknown else {})


def sent(kind: str, whole: int, ranks: int) -> float:
    """Bytes that each rank must send of a whole, see the top of this file."""
    if kind in ("reduce", "broadcast"):
        return float(whole) if ranks > 1 else 0.0
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks * whole


def count(roots: Iterable[Any], ranks: int) -> tuple[dict[str, int], dict[str, int], set[str]]:
    """Of an event tree: bytes of the whole by kind (all kinds), calls by kind, and names of collectives that are none of them."""
    whole = dict.fromkeys(COLLECTIVES, 0)
    calls: dict[str, int] = {}
    unknown: set[str] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if not node.name.startswith(("c10d::", "_c10d_functional::")):
            waiting.extend(node.children)
            continue
        name = node.name.split("::", 1)[1].replace("_", "")
        kind = max((prefix for prefix in _KINDS if name.startswith(prefix)), key=len, default=None)
        if kind is None:
            if not name.startswith(_NO_TRAFFIC):
                unknown.add(node.name)
            continue
        size = max((_bytes(argument) for argument in node.extra_fields.inputs), default=0)
        whole[_KINDS[kind]] += size * (ranks if node.name in _PARTS_ONLY else 1)
        calls[_KINDS[kind]] = calls.get(_KINDS[kind], 0) + 1
    return whole, calls, unknown


def _bytes(argument: Any) -> int:
    if isinstance(argument, list | tuple):
        return sum(map(_bytes, argument))
    sizes, dtype = getattr(argument, "sizes", None), getattr(argument, "dtype", None)
    return math.prod(sizes) * dtype.itemsize if sizes is not None and isinstance(dtype, torch.dtype) else 0


def timeline(events: Sequence[Any], *, cuda: bool) -> tuple[int, list[Span], list[Span]] | None:
    """Nanoseconds of the call, when a collective was under way in it, and when something was computed; None without a mark."""
    mark = next((event for event in events if event.name() == PASS_MARK and event.device_type().name == "CPU"), None)
    if mark is None or not mark.duration_ns():
        return None
    begin, end = mark.start_ns(), mark.start_ns() + mark.duration_ns()
    communicating, computing = [], []
    for event in events:
        span = (max(begin, event.start_ns()), min(end, event.start_ns() + event.duration_ns()))
        if span[0] >= span[1]:
            continue
        name, on_device = event.name(), event.device_type().name == "CUDA"
        if cuda and on_device:
            if "nccl" in name.lower():
                communicating.append(span)
            elif not event.is_user_annotation():
                computing.append(span)
        elif not cuda and name.startswith("gloo:"):
            communicating.append(span)
        elif not cuda and name.startswith("aten::"):
            computing.append(span)
    return end - begin, communicating, computing


def merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Their union, in order and without overlaps."""
    current: Span | None = None
    for begin, end in sorted(spans):
        if current is not None and begin <= current[1]:
            current = (current[0], max(current[1], end))
            continue
        if current is not None:
            yield current
        current = (begin, end)
    if current is not None:
        yield current


def covered(spans: Iterable[Span]) -> int:
    """Length of their union."""
    return sum(end - begin for begin, end in merged(spans))


def exposed(spans: Iterable[Span], hidden_by: Iterable[Span]) -> int:
    """Length of the part of a union that lies outside another."""
    one, other = list(spans), list(hidden_by)
    return covered([*one, *other]) - covered(other)
