"""Explains the peak of one step of a script: what was alive at its highest moment, by cause and phase.

As `attribution_trace` does for a call of ours, but between two updates, whatever the script does there. No counter of torch is reset and
no cache emptied: the script may print the one and rely on the other. So the allocator's own running count in each event stands for the
counter, and where the script records a history of allocations itself, that is left alone and rounding stays within the causes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.audited import Cause, Memory, Place
from bench.worker.attribution import CHECKPOINTS, GRADIENTS, INPUTS, OPTIMIZER, PARAMETERS, SAVED, Phase, Trace, attribute
from bench.worker.attribution_trace import (
    MOST_HISTORY,
    _history,
    _mark,
    _residents_cuda,
    _trace,
    _unchanged,
)
from bench.worker.audit.guard import Notes
from bench.worker.audit.marks import BETWEEN, OPTIMIZER_PHASE, OTHER_PHASE
from bench.worker.audit.optimizers import parameters_of, states_of
from bench.worker.audit.scene import Scene
from bench.worker.audit.tensors import parts
from bench.worker.audit.unseen import OldGradients, with_releases

_ERRORS_ONLY = 2
_CHECKPOINT_FILES = ("checkpoint.py", "checkpointing.py")


class MemoryStep:
    """One step whose allocations are all watched. `start` and `stop` lie at the ends of two updates."""

    def __init__(self, scene: Scene, optimizers: Iterable[Any], notes: Notes, *, checkpoints: bool) -> None:
        """`checkpoints`: whether something is computed again in the backward; only then is it told what autograd saves."""
        self._scene = scene
        self._notes = notes
        self._optimizers = list(optimizers)
        self._checkpoints = checkpoints
        self._stack = ExitStack()
        self.cuda = any(parameter.is_cuda for parameter in scene.root.parameters()) or torch.cuda.is_initialized()
        self._records_history = False
        self._profile: Any = None
        self._old: OldGradients | None = None

    def start(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()
            self._records_history = not torch._C._cuda_isHistoryEnabled()
            if self._records_history:
                torch.cuda.memory._record_memory_history("all", context=None, max_entries=MOST_HISTORY)
                self._stack.callback(torch.cuda.memory._record_memory_history, None)
        held = self._holdings()
        self._residents = _residents_cuda() if self.cuda else _on_host(held)
        self._old = None if self.cuda else OldGradients(self._leaves())
        self._stack.enter_context(_no_warnings_of_the_core())
        # Without `acc_events` some versions of torch warn, in the middle of the script's own output.
        self._profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, with_stack=True, acc_events=True
        )
        self._profile.start()
        _own(held)
        for leaf in self._leaves():
            if leaf.requires_grad and leaf.is_leaf:
                self._stack.callback(leaf.register_post_accumulate_grad_hook(self._gradient_came).remove)
        if self._checkpoints:
            self._stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, _unchanged))

    def inputs(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """What the model is called with, at the call."""
        self._look_for_old()
        for tensor in tensors.values():
            for part in parts(tensor):
                _mark(INPUTS, part)

    def _look_for_old(self) -> None:
        with self._notes.guarded("gradients of the step before"):
            if self._old is not None:
                self._old.tell()

    def _gradient_came(self, leaf: torch.Tensor) -> None:
        self._look_for_old()
        with self._notes.guarded("a gradient"):
            if leaf.grad is not None:
                for part in parts(leaf.grad):
                    _mark(GRADIENTS, part)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        with self._notes.guarded("what autograd saves"):
            cause = CHECKPOINTS if _keeps_inputs() else SAVED
            for part in parts(tensor):
                _mark(cause, part)
        return tensor.detach()  # the tensor itself may be the node's own output: a cycle that is never freed

    def stop(self) -> Memory:
        """The step's peak. What the allocator counts and no event explains is its last cause."""
        _own(self._holdings())
        if self.cuda:
            torch.cuda.synchronize()
        profile, self._profile = self._profile, None
        profile.stop()
        asked = _history() if self._records_history else None
        self._stack.close()
        roots = profile.profiler.kineto_results.experimental_event_tree()
        device = "cuda" if self.cuda else "cpu"
        trace = _trace(roots, self._residents, asked, device)
        trace = replace(trace if self.cuda else with_releases(trace), phases=_named(trace.phases))
        found = attribute(trace)
        counted = _running_count(roots, trace, device)
        peak = max(found.peak, max((size for _, size in counted), default=0)) if self.cuda else found.peak
        causes = [Cause(cause, size) for cause, size in found.causes.items() if size]
        if peak > found.peak:
            causes.append(Cause("unattributed", peak - found.peak))
        return Memory(
            device=device,
            peak_bytes=peak,
            phase=found.phase or OTHER_PHASE,
            causes=tuple(causes),
            temporaries=tuple(Place(where or "unknown", size) for where, size in found.temporaries),
            phase_peaks=_phase_peaks(trace, counted),
            **counters_cuda() if self.cuda else {},
        )

    def abandon(self) -> None:
        """Takes all away, where the script ended within the step."""
        self._stack.close()
        # What the profiler holds must not live until the interpreter takes itself apart: it would crash then.
        profile, self._profile = self._profile, None
        if profile is not None:
            profile.stop()

    def _leaves(self) -> Iterator[torch.Tensor]:
        """Whatever may have a gradient, each once."""
        known: dict[int, torch.Tensor] = {id(parameter): parameter for parameter in self._scene.root.parameters()}
        known |= {id(tensor): tensor for optimizer in self._optimizers for tensor in parameters_of(optimizer)}
        yield from known.values()

    def _holdings(self) -> dict[str, list[torch.Tensor]]:
        models = (self._scene.root, *self._scene.beside)
        own = [part for model in models for tensor in (*model.parameters(), *model.buffers()) for part in parts(tensor)]
        storages = {_storage(tensor) for tensor in own}
        kept = [part for optimizer in self._optimizers for _, tensor in states_of(optimizer) for part in parts(tensor)]
        updated = [part for optimizer in self._optimizers for tensor in parameters_of(optimizer) for part in parts(tensor)]
        masters = [tensor for tensor in updated if _storage(tensor) not in storages]
        grads = {id(leaf.grad): leaf.grad for leaf in self._leaves() if leaf.grad is not None}
        return {PARAMETERS: own, OPTIMIZER: [*kept, *masters], GRADIENTS: [part for grad in grads.values() for part in parts(grad)]}


@contextmanager
def _no_warnings_of_the_core() -> Iterator[None]:
    """Keeps torch's core from telling the script's user, once for a thousand, of blocks that were there before the profiler."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield  # a build with another logger: the line stands in the standard error then
        return
    before = level.value
    level.value = max(before, _ERRORS_ONLY)
    try:
        yield
    finally:
        level.value = before


def _own(held: Mapping[str, list[torch.Tensor]]) -> None:
    for cause, tensors in held.items():
        for tensor in tensors:
            _mark(cause, tensor)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.device.type != "meta" else id(tensor)


def _on_host(held: Mapping[str, list[torch.Tensor]]) -> list[tuple[int, int]]:
    """The host's allocator keeps no list: what the training is known to hold."""
    storages = {}
    for tensors in held.values():
        for tensor in tensors:
            if tensor.device.type == "cpu" and tensor.untyped_storage().nbytes():
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return list(storages.items())


def _keeps_inputs() -> bool:
    """Whether a checkpoint puts its inputs aside: it, and nothing between, called what saves."""
    frame = sys._getframe(2)
    for _ in range(3):
        if frame.f_code.co_filename.rsplit("/", 1)[-1] in _CHECKPOINT_FILES and frame.f_code.co_name != "backward":
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _named(phases: Iterable[Phase]) -> list[Phase]:
    """Between a backward and an update lies the update's; between a backward and a forward, neither's."""
    listed = list(phases)
    named = []
    for number, phase in enumerate(listed):
        if phase.name == BETWEEN:
            last = number + 1 == len(listed) or listed[number + 1].name == OPTIMIZER_PHASE
            phase = replace(phase, name=OPTIMIZER_PHASE if last else OTHER_PHASE)
        named.append(phase)
    return named


def _running_count(roots: Iterable[Any], trace: Trace, device: str) -> list[tuple[int, int]]:
    """(position, bytes in use) after each event: on CUDA by the allocator's own count, on a CPU added up."""
    if device == "cuda":
        return sorted(_allocator_count(roots, device))
    live = sum(size for _, size in trace.residents)
    sizes = dict(trace.residents)
    counted = [(trace.events[0].position - 1, live)] if trace.events else []
    for event in trace.events:
        if event.size > 0:
            sizes[event.address] = event.size
            live += event.size
        else:
            live -= sizes.pop(event.address, 0)
        counted.append((event.position, live))
    return counted


def _allocator_count(roots: Iterable[Any], device: str) -> Iterator[tuple[int, int]]:
    from torch._C._profiler import _EventType

    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node.typed[0] == _EventType.Allocation and node.extra_fields.device.type == device:
            yield node.start_time_ns, int(node.extra_fields.total_allocated)
        waiting.extend(node.children)


def _phase_peaks(trace: Trace, counted: list[tuple[int, int]]) -> dict[str, int]:
    """The highest count of each phase, what it began with included: a phase may allocate nothing."""
    peaks: dict[str, int] = {}
    phases = list(trace.phases)
    number, before = -1, 0
    for position, size in counted:
        while number + 1 < len(phases) and phases[number + 1].position <= position:
            number += 1
            peaks[phases[number].name] = max(peaks.get(phases[number].name, 0), before)
        if number >= 0:
            peaks[phases[number].name] = max(peaks[phases[number].name], size)
        before = size
    for phase in phases[number + 1 :]:
        peaks[phase.name] = max(peaks.get(phase.name, 0), before)
    return peaks


def refreshed(memory: Memory) -> Memory:
    """With what torch counts since the process began as it stands now."""
    if memory.device != "cuda":
        return memory
    now = counters_cuda()
    return replace(
        memory,
        since_start_bytes=now["since_start_bytes"],
        allocator_retries=now["allocator_retries"],
        out_of_memories=now["out_of_memories"],
    )


def counters_cuda() -> dict[str, int]:
    """What torch and the driver count now, by field of `Memory`."""
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    host = getattr(torch.cuda, "host_memory_stats", None)
    return {
        "reserved_bytes": int(stats["reserved_bytes.all.current"]),
        "since_start_bytes": int(stats["allocated_bytes.all.peak"]),
        "device_total_bytes": int(total),
        "device_used_bytes": int(total - free),
        "allocator_retries": int(stats["num_alloc_retries"]),
        "out_of_memories": int(stats["num_ooms"]),
        **({"pinned_bytes": int(host().get("allocated_bytes.current", 0))} if host is not None else {}),
    }
