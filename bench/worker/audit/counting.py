"""Counts and times updates, batches and loss scaling: all that is done in an undisturbed step."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from bench.audited import Data, Precision, Steps
from bench.worker.audit import clock
from bench.worker.audit.batches import Batch
from bench.worker.audit.compiling import graphs_so_far
from bench.worker.audit.facts import Facts

FIRST_TIMED = 6
"""The first update that is timed undisturbed."""
PROFILED = (3, 4)
MOST_SHAPES = 6


class Counting:
    """Of one training. What is done for each step is two moments, and for each batch a few sums on the host."""

    def __init__(self, asked: int) -> None:
        self.seen = 0
        self._asked = asked
        self._began: clock.Moment | None = None
        self._intervals: list[tuple[int, clock.Moment, clock.Moment]] = []
        self._source: int | None = None
        self._workers: int | None = None
        self._pins: bool | None = None
        self._waited_s = 0.0
        self._host_timed: list[tuple[float, float]] = []
        self._batches: list[Batch] = []
        self._scaler: weakref.ref[Any] | None = None
        self._scaler_asked = 0
        self._graphs_when_settled: int | None = None
        self.inputs: list[Batch] = []
        """Micro-batches of the profiled steps, as the model got them."""
        self.profiled_steps = 0

    def update_ended(self) -> None:
        moment = clock.now()
        self.seen += 1
        if self._began is not None:
            self._intervals.append((self.seen, self._began, moment))
            if self.seen >= FIRST_TIMED:
                self._host_timed.append((moment.host_s - self._began.host_s, self._waited_s))

    def step_begins(self) -> None:
        """What the probe did since the update ended is in no step."""
        self._waited_s = 0.0
        self._began = clock.now()

    def settled(self) -> None:
        """From now on nothing should be compiled any more."""
        self._graphs_when_settled = graphs_so_far()

    def batch_came(self, iterator: Any, batch: Batch | None, waited_s: float) -> None:
        """Batches of the first data set that gave one; a validation has another."""
        source = id(getattr(iterator, "_dataset", iterator))
        if self._source is None:
            self._source = source
            self._workers = getattr(iterator, "_num_workers", None)
            self._pins = getattr(iterator, "_pin_memory", None)
        if source == self._source:
            self._waited_s += waited_s
            if batch is not None:
                self._batches.append(batch)

    def scaler_asked(self, scaler: Any) -> None:
        if self._scaler is None or self._scaler() is None:
            self._scaler = weakref.ref(scaler)
        self._scaler_asked += 1

    def fill(self, facts: Facts, counted_by: str) -> None:
        """Puts into `facts` what was counted. Waits for the device."""
        seconds = [(number, clock.seconds(begin, end)) for number, begin, end in self._intervals]
        per_step = len(self.inputs) / self.profiled_steps if self.profiled_steps and self.inputs else None
        mean = sum(batch.tokens for batch in self.inputs) / self.profiled_steps if self.profiled_steps and self.inputs else None
        facts.steps = Steps(
            asked=self._asked,
            seen=self.seen,
            counted_by=counted_by,
            warmup_s=tuple(value for number, value in seconds if number < FIRST_TIMED and number not in PROFILED),
            profiled_s=tuple(value for number, value in seconds if number in PROFILED),
            timed_s=tuple(value for number, value in seconds if number >= FIRST_TIMED),
            micro_batches=per_step,
            tokens=mean,
            batch_shapes=tuple(dict.fromkeys(batch.shape for batch in self.inputs))[:MOST_SHAPES],
            phases_s=facts.steps.phases_s if facts.steps is not None else {},
        )
        facts.data = self._data()
        if facts.compiled is not None and self._graphs_when_settled is not None:
            facts.compiled = replace(facts.compiled, recompiled_while_timed=graphs_so_far() > self._graphs_when_settled)
        scaler = self._scaler() if self._scaler is not None else None
        if scaler is not None and scaler.is_enabled():
            known = facts.precision or Precision(None, {}, None)
            skipped = max(0, self._scaler_asked - self.seen)
            facts.precision = replace(known, scaler_scale=float(scaler.get_scale()), scaler_skipped=skipped)

    def _data(self) -> Data:
        step_s, waited_s = (sum(column) for column in zip(*self._host_timed, strict=True)) if self._host_timed else (0.0, 0.0)
        from_loader = self._source is not None
        told = [batch for batch in self._batches if batch.padding is not None or batch.ignored_labels is not None] or self.inputs
        padded = [batch for batch in told if batch.padding is not None]
        labelled = [batch for batch in told if batch.ignored_labels is not None]
        return Data(
            wait_share=waited_s / step_s if from_loader and step_s else None,
            workers=self._workers,
            pin_memory=self._pins,
            padding_share=_share([(batch.padding or 0, batch.tokens) for batch in padded]),
            ignored_label_share=_share([(batch.ignored_labels or 0, batch.labels or 0) for batch in labelled]),
            batches_seen=len(told),
        )


def _share(pairs: list[tuple[int, int]]) -> float | None:
    """Of the sum of the second numbers; None where that is nothing."""
    whole = sum(total for _, total in pairs)
    return sum(part for part, _ in pairs) / whole if whole else None
