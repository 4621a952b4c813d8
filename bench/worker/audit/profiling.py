"""The two profiled steps of a script: the first for what ran, the second for what was alive."""

from __future__ import annotations

import gc
import os
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

    @classmethod
    def of(cls, optimizers: Iterable[Any], engine: Any, notes: Notes) -> Profiling | None:
        """None where nobody's parameters belong to a module: the notes say so."""
        known = list(optimizers)
        scene = find_scene((parameter for optimizer in known for parameter in parameters_of(optimizer)), engine)
        if scene is None:
            notes.add("no torch module holds the parameters that are updated: of the model nothing can be said")
            return None
        theirs = all_objects(lambda kind: kind is torch.profiler.profile)
        if theirs or torch._C._autograd._profiler_enabled():
            notes.add("the script runs torch's profiler itself, and there can be one only: no step was profiled")
        return cls(scene, known, notes, may_profile=not theirs)

    def start_kernels(self) -> None:
        if not self._may_profile:
            return
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.sees_kernels:
            torch.cuda.synchronize()
            activities.append(torch.profiler.ProfilerActivity.CUDA)
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

    def _end_marks(self) -> None:
        assert self._marks is not None
        self._marks.stop()
        self.marks, self._marks = self._marks, None
        self.whole_steps += 1


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
