"""Follows a training from update to update: looks at it after the second, profiles the two that follow, and only counts and times the rest.

    update   1 2 | kernels 3 | memory 4 | settle 5 | timed 6 … N

The profiled ones come early, so that a script that ends before N updates has told what is on all the same.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.audited import Ended
from bench.worker.audit import ending
from bench.worker.audit.batches import look_at
from bench.worker.audit.counting import Counting
from bench.worker.audit.describing import describe
from bench.worker.audit.guard import Notes
from bench.worker.audit.memory import refreshed
from bench.worker.audit.model import gradients
from bench.worker.audit.optimizers import parameters_of
from bench.worker.audit.profiling import Profiling
from bench.worker.audit.report import Report, nothing_yet, raised

LOOK_AT, KERNELS_AT, MEMORY_AT, SETTLED_AT = 2, 3, 4, 5
"""Updates after which something is done."""


class Probe:
    """Implements `watch.Listener`. One in each process."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._folder = folder
        self._asked = steps
        self._forked = False
        self._begin()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._script_ended)
        if multiprocessing.parent_process() is None:
            # A script that leaves by os._exit, or is killed, comes to no end in which it could say that it was there.
            self._write(Ended("running"))

    def _begin(self) -> None:
        self._notes = Notes()
        self._known = nothing_yet()
        self._report = Report(self._folder)
        self._counting = Counting(self._asked)
        self._profiling: Profiling | None = None
        self._engine: Any = None
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._anchor: weakref.ref[Any] | None = None
        self._counted_by = ""
        self._written = False
        # A process of `multiprocessing` leaves without Python's own end.
        multiprocessing.util.Finalize(None, self._script_ended, exitpriority=0)

    def _after_fork(self) -> None:
        """A child by fork is another process: it may load data, or be a rank."""
        self._forked = True
        self._begin()

    # What the hooks call.

    def update_begins(self, optimizer: Any) -> None:
        with self._notes.guarded("the beginning of an update"):
            self._optimizers.setdefault(id(optimizer), weakref.ref(optimizer))
            self._counting.update_begins(optimizer)
            if self._profiling is not None:
                self._profiling.update_begins()
            if self._counting.seen == LOOK_AT and not self._known.gradients:
                leaves = (parameter for known in self._known_optimizers() for parameter in parameters_of(known))
                self._known = replace(self._known, gradients=gradients(leaves))

    def update_ends(self, optimizer: Any) -> None:
        if self._engine is None and self._is_anchor(optimizer):
            self._update_ended()

    def engine_begins(self, engine: Any) -> None:
        if self._engine is None:
            self._engine = engine
            self._counted_by = type(engine).__name__
        if self._profiling is not None:
            self._profiling.update_begins()

    def engine_ends(self, engine: Any) -> None:
        if engine is self._engine:
            self._update_ended()

    def batch_came(self, iterator: Any, batch: Any, waited_s: float) -> None:
        with self._notes.guarded("a batch"):
            self._counting.batch_came(iterator, look_at(batch, host_only=True), waited_s)

    def scaler_asked(self, scaler: Any, optimizer: Any) -> None:
        self._counting.scaler_asked(scaler, id(optimizer))

    # Update by update.

    def _is_anchor(self, optimizer: Any) -> bool:
        """Whether the updates of this optimizer are counted: those of the first one that is still there."""
        if self._anchor is None or self._anchor() is None:
            self._anchor = weakref.ref(optimizer)
            self._counted_by = type(optimizer).__name__
        return self._anchor() is optimizer

    def _anchored(self) -> int | None:
        """`id` of the optimizer whose updates are counted; None where an engine's are."""
        return id(self._anchor()) if self._engine is None and self._anchor is not None else None

    def _known_optimizers(self) -> list[Any]:
        return [optimizer for known in self._optimizers.values() if (optimizer := known()) is not None]

    def _update_ended(self) -> None:
        with self._notes.guarded("an update"):
            self._counting.update_ended(self._anchored())
            self._act(self._counting.seen)
        if self._counting.seen >= self._asked:
            self._write(Ended("stopped"))
            ending.leave()
        with self._notes.guarded("the beginning of a step"):
            self._counting.step_begins()

    def _act(self, seen: int) -> None:
        if seen == LOOK_AT:
            self._profiling = Profiling.of(self._known_optimizers(), self._engine, self._notes)
            if self._profiling is not None:
                self._profiling.start_kernels()
        elif seen == KERNELS_AT and self._profiling is not None:
            self._profiling.stop_kernels()
            self._profiling.start_memory()
        elif seen == MEMORY_AT and self._profiling is not None:
            self._profiling.stop_memory()
            self._look()
            self._write(Ended("running"))
        elif seen == SETTLED_AT:
            self._counting.settled()

    def _look(self) -> None:
        """Describes all, and lets go of the script's objects."""
        if self._profiling is not None:
            self._known = describe(self._known, self._profiling, self._known_optimizers(), self._notes)
            if self._profiling.marks is not None:
                self._counting.inputs = self._profiling.marks.batches
                self._counting.profiled_steps = self._profiling.whole_steps
            self._profiling = None

    # The end.

    def _script_ended(self) -> None:
        """The script came to an end before the probe ended it."""
        if self._written or (self._counting.seen == 0 and (self._forked or multiprocessing.parent_process() is not None)):
            return
        if self._profiling is None and self._known.model is None and self._known_optimizers():
            with self._notes.guarded("the model"):
                self._profiling = Profiling.of(self._known_optimizers(), self._engine, self._notes)
        if self._profiling is not None:
            self._profiling.abandon()
            self._notes.add("the script ended before both profiled steps were over")
            self._look()
        self._write(raised() or Ended("finished"))

    def _write(self, ended: Ended) -> None:
        self._written = ended.how != "running"
        with self._notes.guarded("the counts"):
            self._known = self._counting.counted(self._known, self._counted_by)
        with self._notes.guarded("counters of the device"):
            if self._known.memory is not None:
                self._known = replace(self._known, memory=refreshed(self._known.memory))
        with self._notes.guarded("the report"):
            self._report.write(self._known, ended, self._notes.lines())
