"""Counts and times updates, batches and loss scaling: all that is done in an undisturbed step."""

from __future__ import annotations

import weakref
from collections import defaultdict
from dataclasses import replace
from typing import Any

import torch

from bench.audited import Audited, Data, Precision, Steps
from bench.worker.audit import clock
from bench.worker.audit.batches import Batch
from bench.worker.audit.compiling import graphs_so_far

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
        self._latest: int | None = None
        self._sources: set[int] = set()
        self._workers: int | None = None
        self._pins: bool | None = None
        self._waited_s = 0.0
        self._host_timed: list[tuple[float, float]] = []
        self._batches: list[Batch] = []
        self._scaler: weakref.ref[Any] | None = None
        self._scaler_asked: dict[int, int] = defaultdict(int)
        self._scaled: int | None = None
        self._left_out: dict[int, Any] = {}
        self._graphs_when_settled: int | None = None
        self.inputs: list[Batch] = []
        """Micro-batches of the profiled steps, as the model got them."""
        self.profiled_steps = 0

    def update_begins(self, optimizer: Any) -> None:
        """A fused optimizer is called by the scaler whether gradients overflowed or not, and leaves out the update itself."""
        overflowed = getattr(optimizer, "found_inf", None)
        if isinstance(overflowed, torch.Tensor):
            key = id(optimizer)
            self._left_out[key] = self._left_out[key] + overflowed if key in self._left_out else overflowed.clone()

    def update_ended(self, optimizer: int | None) -> None:
        """`optimizer`: the `id` of the one whose update it was; None of an engine."""
        moment = clock.now()
        if self.seen == 0:
            self._sources = {self._latest} if self._latest is not None else set()
        self._scaled = optimizer
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
        """Batches of the data that the first update was made of, and of whatever else the second one took: a validation has others."""
        source = id(getattr(iterator, "_dataset", iterator))
        if self.seen == 0 and source != self._latest:
            self._batches.clear()
            self._latest = source
            self._workers = getattr(iterator, "_num_workers", None)
            self._pins = getattr(iterator, "_pin_memory", None)
        if self.seen == 1:
            self._sources.add(source)
        if self.seen == 0 or source in self._sources:
            self._waited_s += waited_s
            if batch is not None:
                self._batches.append(batch)

    def scaler_asked(self, scaler: Any, optimizer: int) -> None:
        """For an update of the optimizer of this `id`."""
        if self._scaler is None or self._scaler() is None:
            self._scaler = weakref.ref(scaler)
        self._scaler_asked[optimizer] += 1

    def counted(self, known: Audited, counted_by: str) -> Audited:
        """`known` with what was counted. Waits for the device."""
        seconds = [(number, clock.seconds(begin, end)) for number, begin, end in self._intervals]
        per_step = len(self.inputs) / self.profiled_steps if self.profiled_steps and self.inputs else None
        mean = sum(batch.tokens for batch in self.inputs) / self.profiled_steps if self.profiled_steps and self.inputs else None
        steps = Steps(
            asked=self._asked,
            seen=self.seen,
            counted_by=counted_by,
            warmup_s=tuple(value for number, value in seconds if number < FIRST_TIMED and number not in PROFILED),
            profiled_s=tuple(value for number, value in seconds if number in PROFILED),
            timed_s=tuple(value for number, value in seconds if number >= FIRST_TIMED),
            micro_batches=per_step,
            tokens=mean,
            batch_shapes=tuple(dict.fromkeys(batch.shape for batch in self.inputs))[:MOST_SHAPES],
            phases_s=known.steps.phases_s if known.steps is not None else {},
        )
        compiled, precision = known.compiled, known.precision
        if compiled is not None and self._graphs_when_settled is not None:
            compiled = replace(compiled, recompiled_while_timed=graphs_so_far() > self._graphs_when_settled)
        scaler = self._scaler() if self._scaler is not None else None
        if scaler is not None and scaler.is_enabled():
            asked, skipped = self._scaled_updates()
            precision = replace(
                precision or Precision(None, {}, None, autocast_watched=False),
                scaler_scale=float(scaler.get_scale()),
                scaler_skipped=skipped,
                scaler_asked=asked,
            )
        return replace(known, steps=steps, data=self._data(), compiled=compiled, precision=precision)

    def _scaled_updates(self) -> tuple[int, int]:
        """Updates that the scaler was asked for and those that were left out; of the optimizer whose updates are counted."""
        counted = self._scaled if self._scaled is not None else max(self._scaler_asked, key=lambda one: self._scaler_asked[one])
        asked = self._scaler_asked.get(counted, 0)
        inside = self._left_out.get(counted)
        return asked, max(0, asked - self.seen) + (int(inside.sum().item()) if inside is not None else 0)

    def _data(self) -> Data:
        step_s, waited_s = (sum(column) for column in zip(*self._host_timed, strict=True)) if self._host_timed else (0.0, 0.0)
        from_loader = bool(self._sources)
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
