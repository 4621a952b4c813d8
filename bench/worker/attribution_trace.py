"""Traces one call for `attribution`: every allocation and release that torch's allocators report, and who owns what.

The profiler's event tree holds them all with address, size and operator, on a CPU and on CUDA alike, in the order in which they
happened. Labels are put into the same tree as marks with a name, so that they need no clock of their own, and so are the calls of
functions (`attribution_calls.py`). On CUDA the allocator's own
history tells besides how much was asked for, allocation by allocation; what rounding added is slack.

Tensors that autograd saves are seen through its hooks. Checkpointing without reentrance puts hooks of its own inside, so that ours see
only what a checkpoint keeps, and the caller's name tells that. All this disturbs time: it is a pass of its own, and its peak is
compared with that of the undisturbed memory pass.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
from torch._C._profiler import RecordScope, _EventType

from bench.metrics import METRICS, PEAK_CAUSES
from bench.records import Json, Measurement
from bench.worker.attribution import (
    CHECKPOINTS,
    GRADIENTS,
    INPUTS,
    SAVED,
    SLACK,
    Attribution,
    Event,
    Label,
    Phase,
    Trace,
    attribute,
)
from bench.worker.attribution_calls import CALL, MarkedCalls, of_torch, short
from bench.worker.step import Step
from bench.worker.timing import without_collection

MARK = "bench: "
_CHECKPOINT = "_checkpoint_without_reentrant_generator"
_ALLOCATION = "[memory]"
_NO_OPERATOR = ("aten::empty", "aten::resize_", "aten::set_")
MOST_HISTORY = 4_000_000


def explain_peak(step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
    """The peak of one call by cause: `peak_<cause>_bytes`, and for the conditions the peak of this pass, its phase and a timeline.

    `overcounted_bytes` among the conditions: the causes are more than the allocator's own count by this, so a release was not seen.
    Nothing for a subject that does not tell its `holdings`.
    """
    if step.bound.holdings is None:
        return (), {}
    cuda = any(tensor.is_cuda for tensor in (*step.inputs.values(), *step.bound.parameters.values()))
    step.prepare()
    gc.collect()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=MOST_HISTORY)
    residents = _residents_cuda() if cuda else residents_on_host(step)
    try:
        roots = _profiled(step, step.bound.holdings)
        asked, counted = (_history(), int(torch.cuda.memory_stats()["allocated_bytes.all.peak"])) if cuda else (None, None)
    finally:
        if cuda:
            torch.cuda.memory._record_memory_history(None)
    with without_collection():  # of hundreds of thousands of nodes, none of which is garbage
        trace = _trace(roots, residents, asked, "cuda" if cuda else "cpu")
        found = attribute(trace)
        del roots
    total = found.peak if counted is None else counted
    causes = {**found.causes, "unattributed": max(0, total - found.peak)}
    values = {f"peak_{cause}_bytes": causes.get(cause, 0) for cause, _ in PEAK_CAUSES}
    measurements = tuple(Measurement(name, METRICS[name].unit, (float(value),)) for name, value in values.items())
    return measurements, {"memory_explained": _facts(found, total)}


def _facts(found: Attribution, total: int) -> Json:
    first = found.timeline[0].position if found.timeline else 0
    return {
        "phase": found.phase,
        "peak_bytes": total,
        **({"overcounted_bytes": found.peak - total} if found.peak > total else {}),
        "temporaries": [{"where": where, "bytes": size} for where, size in found.temporaries],
        "timeline": [
            {"at_s": round((moment.position - first) * 1e-9, 6), "phase": moment.phase, "bytes": moment.alive}
            for moment in found.timeline
        ],
    }


def _profiled(step: Step, holdings: Callable[[], Mapping[str, Sequence[torch.Tensor]]]) -> Sequence[Any]:
    """The event tree of one call, with our marks in it."""

    def own(names: Mapping[str, Sequence[torch.Tensor]]) -> None:
        for cause, tensors in names.items():
            for tensor in tensors:
                _mark(cause, tensor)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        _mark(CHECKPOINTS if _within_checkpoint() else SAVED, tensor)
        return tensor.detach()  # the tensor itself may be the node's own output: a cycle that is never freed

    def phase(name: str) -> None:
        with torch.profiler.record_function(f"{MARK}phase {name}"):
            pass
        own(holdings())  # weights that ranks gather lie elsewhere in each phase

    activities = [torch.profiler.ProfilerActivity.CPU]
    with ExitStack() as stack:
        for leaf in _learning(step, holdings()):
            stack.callback(leaf.register_post_accumulate_grad_hook(_mark_gradient).remove)
        profile = stack.enter_context(torch.profiler.profile(activities=activities, profile_memory=True))
        with MarkedCalls():
            own(holdings())
            own({INPUTS: list(step.inputs.values())})
            with torch.autograd.graph.saved_tensors_hooks(pack, _unchanged):
                kept = step.bound.phased(step.inputs, phase) if step.bound.phased is not None else step()
            own(holdings())
            del kept
    roots: Sequence[Any] = profile.profiler.kineto_results.experimental_event_tree()
    return roots


def _learning(step: Step, held: Mapping[str, Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """All that gets a gradient: some gradients are gone when the call ends, as where an update goes through a copy of the weights."""
    leaves = (tensor for tensors in held.values() for tensor in tensors if tensor.requires_grad and tensor.is_leaf)
    return list({id(leaf): leaf for leaf in (*step.leaves, *leaves)}.values())


def _mark_gradient(leaf: torch.Tensor) -> None:
    if leaf.grad is not None:
        _mark(GRADIENTS, leaf.grad)


def _mark(cause: str, tensor: torch.Tensor) -> None:
    """In the way that costs least: the profiler's own record_function is a dozen calls in Python, and each is a node of the tree."""
    for address in _addresses(tensor):
        with torch._C._profiler._RecordFunctionFast(f"{MARK}{cause} {address}"):
            pass


def _addresses(tensor: torch.Tensor) -> Iterator[int]:
    """Of the storages behind a tensor: several for one that is made of others (quantized, sharded).

    Not by `untyped_storage()`: once Python has seen a storage, autograd no longer adds gradients to it in place.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        for name in flatten()[0]:
            yield from _addresses(getattr(tensor, name))
        return
    if tensor.numel():
        yield tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _within_checkpoint() -> bool:
    """Whether the call comes from where a checkpoint puts its inputs aside; a few frames up, no further."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(12):
        if frame is None:
            break
        if frame.f_code.co_name == _CHECKPOINT:
            return True
        frame = frame.f_back
    return False


def residents_on_host(step: Step) -> list[tuple[int, int]]:
    """(address, bytes) of what the subject tells that it holds, and of its inputs: the host's allocator keeps no list."""
    held: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> None:
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is not None:
            for name in flatten()[0]:
                note(getattr(tensor, name))
        elif tensor.device.type == "cpu" and tensor.untyped_storage().nbytes():
            held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()

    told = step.bound.holdings() if step.bound.holdings is not None else {}
    for tensors in (*told.values(), list(step.inputs.values())):
        for tensor in tensors:
            note(tensor)
    return list(held.items())


def _residents_cuda() -> list[tuple[int, int]]:
    """All blocks in use, what rounding added apart: that lies at an address of its own, see `_slack_address`."""
    residents = []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                asked = int(block.get("requested_size", block["size"]))
                residents += [(address, asked), (_slack_address(address), int(block["size"]) - asked)]
            address += block["size"]
    return [(address, size) for address, size in residents if size]


def _slack_address(address: int) -> int:
    return -address - 1


def _history() -> list[int]:
    """Bytes that were asked for, allocation by allocation, since the history began."""
    snapshot: Any = torch.cuda.memory._snapshot()
    traces = snapshot["device_traces"][torch.cuda.current_device()]
    return [int(entry["size"]) for entry in traces if entry["action"] == "alloc"]


def _trace(roots: Sequence[Any], residents: list[tuple[int, int]], asked: list[int] | None, device: str) -> Trace:
    """Of the event tree of a call. Functions are those of `MarkedCalls`, or what the profiler itself has noted (`with_stack`).

    Nodes are told apart by their names where these say it: asking one for its kind takes longer than all else.
    """
    events: list[Event] = []
    labels: list[Label] = []
    phases: list[Phase] = []
    waiting: list[tuple[Any, str, str]] = [(root, "", "") for root in roots]
    while waiting:
        node, operator, frame = waiting.pop()
        name = node.name
        if name == _ALLOCATION:
            fields = node.extra_fields
            if fields.device.type == device and fields.alloc_size:
                where = f"{operator} in {frame}" if frame and operator else operator or frame
                events.append(Event(node.start_time_ns, fields.ptr, fields.alloc_size, where))
        elif name.startswith(CALL):
            operator, frame = "", name[len(CALL) :]
        elif name.startswith(MARK):
            _read_mark(node, labels, phases)
        elif name.startswith("aten::"):
            operator = operator if name.startswith(_NO_OPERATOR) else name
        elif _is_operator(node):
            operator = name.removeprefix("autograd::engine::evaluate_function: ")
        elif not of_torch(name) and node.tag == _EventType.PyCall:
            operator, frame = "", short(name)
        for child in node.children:
            waiting.append((child, operator, frame))
    phases.sort(key=lambda phase: phase.position)
    events.sort(key=lambda event: event.position)
    if asked is not None:
        labels += [Label(0, address, SLACK) for address, _ in residents if address < 0]
        events = _without_rounding(events, asked, labels)
    return Trace(residents, events, labels, phases)


def _is_operator(node: Any) -> bool:
    """Not so a part of the code that somebody has named, such as the step of an optimizer."""
    return node.tag == _EventType.TorchOp and node.extra_fields.scope != RecordScope.USER_SCOPE


def _without_rounding(events: list[Event], asked: list[int], labels: list[Label]) -> list[Event]:
    """Each allocation parted into what was asked for and slack. The n-th of the profiler is the n-th of the history."""
    if sum(event.size > 0 for event in events) != len(asked):
        return events  # one of both has missed some: then slack stays within the causes
    parted: list[Event] = []
    requests = iter(asked)
    slack: dict[int, int] = {}
    for event in events:
        if event.size > 0:
            request = next(requests)
            parted.append(Event(event.position, event.address, request, event.where))
            slack[event.address] = event.size - request
            if slack[event.address]:
                parted.append(Event(event.position, _slack_address(event.address), slack[event.address], event.where))
                labels.append(Label(event.position, _slack_address(event.address), SLACK))
        else:
            parted.append(event)
            if slack.pop(event.address, 1):  # a resident's, or one that has some
                parted.append(Event(event.position, _slack_address(event.address), -1))
    return parted


def _read_mark(node: Any, labels: list[Label], phases: list[Phase]) -> None:
    cause, _, value = node.name.removeprefix(MARK).partition(" ")
    if cause == "phase":
        phases.append(Phase(node.start_time_ns, value))
    elif value:
        labels.append(Label(node.start_time_ns, int(value), cause))
