"""The two profiled steps of a script: the first for what ran, the second for what was alive."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from bench.audited import Memory
from bench.worker.audit.guard import Notes
from bench.worker.audit.marks import OPTIMIZER_PHASE, Marks
from bench.worker.audit.memory import MemoryStep
from bench.worker.audit.optimizers import parameters_of
from bench.worker.audit.scene import Scene, all_objects, find_scene
from bench.worker.audit.timeline import Timeline, read_timeline

_LOG_LEVEL = "KINETO_LOG_LEVEL"
_DETACHES = "TEARDOWN_CUPTI"
_SAFE_TO_DETACH = (12, 6)
"""CUDA from which on the tracing library can leave a process that has captured graphs."""
_DETACHED_AFTER_S = 0.1
_PROFILERS = (torch.profiler.profile, torch.autograd.profiler.profile)


class Profiling:
    """What the profiled steps of one training show."""

    def __init__(self, scene: Scene, optimizers: list[Any], notes: Notes, *, may_profile: bool) -> None:
        self.scene = scene
        self._optimizers = optimizers
        self._notes = notes
        self._may_profile = may_profile
        self._profile: Any = None
        self._marks: Marks | None = None
        self._memory_step: MemoryStep | None = None
        self.marks: Marks | None = None
        """Of the first profiled step, once it is over."""
        self.timeline: Timeline | None = None
        self.phases_s: dict[str, float] = {}
        self.memory: Memory | None = None
        self.whole_steps = 0
        """Steps whose inputs were seen from beginning to end."""
        self.sees_kernels = torch.cuda.is_initialized()
        self._detaches = False

    @classmethod
    def of(cls, optimizers: Iterable[Any], engine: Any, notes: Notes) -> Profiling | None:
        """None where nobody's parameters belong to a module: the notes say so."""
        known = list(optimizers)
        scene = find_scene((parameter for optimizer in known for parameter in parameters_of(optimizer)), engine)
        if scene is None:
            notes.add("no torch module holds the parameters that are updated: of the model nothing can be said")
            return None
        theirs = bool(all_objects(lambda kind: kind in _PROFILERS)) or torch._C._autograd._profiler_enabled()
        if theirs:
            notes.add("the script runs torch's profiler itself, and there can be one only: no step was profiled")
        return cls(scene, known, notes, may_profile=not theirs)

    def start_kernels(self) -> None:
        if not self._may_profile:
            return
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.sees_kernels:
            torch.cuda.synchronize()
            activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._detaches = _may_detach()
            if torch.version.cuda and not self._detaches:
                self._notes.add(
                    "CUDA's tracing library stays in the process: a timed step is slower where launching is what takes time"
                )
        self._profile = torch.profiler.profile(activities=activities, record_shapes=True, acc_events=True)
        with _quiet():
            self._profile.start()
        self._marks = Marks(self.scene, self._notes, modules=True)
        self._marks.start()

    def stop_kernels(self) -> None:
        if self._profile is None or self._marks is None:
            return
        self._end_marks()
        if self.sees_kernels:
            torch.cuda.synchronize()
        profile, self._profile = self._profile, None
        profile.stop()
        self._wait_until_detached()
        self.timeline, windows = read_timeline(list(profile.profiler.kineto_results.events()), cuda=self.sees_kernels)
        self.phases_s = self.timeline.by_phase_s(windows)
        del profile
        gc.collect()  # a profiler refers to itself, and what it holds crashes the interpreter when that takes itself apart

    def start_memory(self) -> None:
        if not self._may_profile or self.marks is None:
            return
        checkpoints = bool(self.marks.recomputed)
        self._memory_step = MemoryStep(self.scene, self._optimizers, self._notes, checkpoints=checkpoints)
        with _quiet():
            self._memory_step.start()
        self._marks = Marks(self.scene, self._notes, modules=False)
        self._marks.start(self._memory_step.inputs)

    def stop_memory(self) -> None:
        if self._memory_step is None or self._marks is None:
            return
        step, self._memory_step = self._memory_step, None
        batches = self._marks.batches
        self._marks.stop()
        self._marks = None
        if self.marks is not None:
            self.marks.batches += batches
            self.whole_steps += 1
        self.memory = step.stop()
        self._wait_until_detached()
        del step
        gc.collect()

    def update_begins(self) -> None:
        """An update begins; the first of several of a step counts."""
        if self._marks is not None and not self._marks.in_update:
            self._marks.phase(OPTIMIZER_PHASE)

    def abandon(self) -> None:
        """Takes all hooks away, where the script ended within a profiled step."""
        if self._marks is not None:
            self._marks.stop()
        if self._memory_step is not None:
            self._memory_step.abandon()
        profile, self._profile = self._profile, None
        if profile is not None:
            profile.stop()
        self._marks = self._memory_step = profile = None
        gc.collect()

    def _wait_until_detached(self) -> None:
        """The tracing library leaves in a thread of its own, at the next calls of CUDA; the next profile must not begin meanwhile."""
        until = time.monotonic() + _DETACHED_AFTER_S
        while self._detaches and time.monotonic() < until:
            torch.cuda.synchronize()
            time.sleep(_DETACHED_AFTER_S / 20)

    def _end_marks(self) -> None:
        assert self._marks is not None
        self._marks.stop()
        self.marks, self._marks = self._marks, None
        self.whole_steps += 1


def _may_detach() -> bool:
    """Has the tracing library leave the process after a profile: while it stays, each launch of a kernel takes longer.

    The variable is left as it is set, since a later profile of the script's own has to know of it. Whoever has set it before is obeyed.
    """
    version = tuple(int(part) for part in (torch.version.cuda or "0").split(".")[:2])
    return version >= _SAFE_TO_DETACH and os.environ.setdefault(_DETACHES, "1") == "1"


@contextmanager
def _quiet() -> Iterator[None]:
    """Profiling writes lines of its own to the standard error unless it is told at its first start not to."""
    before = os.environ.get(_LOG_LEVEL)
    os.environ[_LOG_LEVEL] = "99"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LOG_LEVEL]
        else:
            os.environ[_LOG_LEVEL] = before
