"""Training steps that rows have, found by what fills their slots: so that what is planned stands beside what was measured.

A step counts where it is what `bench plan` plans: a named model as it is, full sequences, one accumulation, no dropout, no cap on memory,
one GPU. Of several runs of one way the newest that has rows counts, and whatever is told of a way is told by one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from bench.catalogue.shapes import read_models
from bench.plan.predict import OFFLOAD_OF_SLOT
from bench.plan.spec import DEFAULTS, MODELLED, ModelSpec, PlanError, TrainSpec, of_shape
from bench.plan.stored import WORKLOAD
from bench.records import MEMORY_LIMIT_PARAM, Result, Run, Status
from bench.report.numbers.summary import CaseSummary, Spread, spread
from bench.stats import median
from bench.store.steps import LEAST_SAMPLES
from bench.store.thinning import samples_before

TIME, TOTAL = "time_s", "peak_total_bytes"
AHEAD_SHARE = 0.1
"""Of a step's time: a device that works on for so much of it after the last launch did not wait for the host, as the timer counts."""
AS_PLANNED: Mapping[str, Any] = {
    "batch": 1,
    "accumulation": 1,
    "packing": "full",
    "dropout": 0.0,
    MEMORY_LIMIT_PARAM: None,
    "zero_options": "defaults",
}
"""What else a case must be; where it does not say, it is."""
Way = frozenset[tuple[str, str]]
"""Slot to implementation, of the slots that are filled otherwise than by default."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is trained, how long its sequences are, and how."""

    model: str
    seq_len: int
    way: Way


@dataclass(frozen=True, slots=True)
class Trained:
    """What one run says of a step."""

    outcome: str
    reason: str | None
    tokens_per_s: Spread | None
    """Over trials, each its median."""
    steps: int | None
    """The fewest that a trial's time is the median of; None without a time."""
    waited: bool
    """Whether the device may have waited for the host within that time: a quicker host may then be faster with the same kernels."""
    settled: bool | None
    """Whether each trial's times had become stable when its warm-up ended; None where no row tells."""
    peak: Spread | None
    """Of all that lived on the GPU, in bytes."""
    n: int
    """Trials that count."""
    run: Run
    result: Result
    """The first of its rows."""

    @property
    def few_steps(self) -> int | None:
        """Of what was measured for its memory: so few that the time is none to go by."""
        return self.steps if self.steps is not None and self.steps < LEAST_SAMPLES else None

    @property
    def for_memory(self) -> bool:
        """Whether it fitted, and its time is none to go by."""
        return self.outcome == Status.OK and (self.few_steps is not None or self.tokens_per_s is None)

    @property
    def common_ground(self) -> tuple[Any, ...]:
        """What two must share for their times to be held against each other."""
        return self.result.environment.hard_hash, self.result.method_version, self.result.case.workload_version


def way_of(slots: Mapping[str, str]) -> Way:
    """Of a subject, or of a part of one."""
    return frozenset((slot, name) for slot, name in slots.items() if name != DEFAULTS.get(slot, "none"))


def way_of_plan(train: TrainSpec) -> Way:
    """The same way in the words of suites."""
    slot_of = {word: slot for slot, word in OFFLOAD_OF_SLOT.items()}
    slots = {slot: str(getattr(train, slot)) for slot in MODELLED}
    return way_of({**slots, "sharding": train.sharding, "offloading": slot_of[train.offload]})


def trained(summaries: Iterable[tuple[Run, CaseSummary]]) -> dict[Step, Trained]:
    """The newest of each step on a GPU, where its rows count; what was measured for its memory alone only where there is no other."""
    found: dict[Step, Trained] = {}
    for run, summary in sorted(summaries, key=lambda entry: entry[0].id):  # ids of runs sort by time
        step = _step(summary)
        if step is None or not summary.counted:
            continue
        new = _trained(run, summary)
        if new.outcome == Status.UNAVAILABLE and step in found:
            continue  # what is absent today says nothing of what was measured
        if not new.for_memory or step not in found or found[step].for_memory:
            found[step] = new
    return found


def _step(summary: CaseSummary) -> Step | None:
    case = summary.case
    if case.workload != WORKLOAD or case.device != "cuda" or case.world_size != 1:
        return None
    if any(case.params.get(name, usual) != usual for name, usual in AS_PLANNED.items()):
        return None
    name = str(case.params.get("model"))
    shape = read_models().get(name)
    try:
        as_it_is = None if shape is None else of_shape(shape)
    except PlanError:
        return None  # of a family that nothing is planned of
    sizes = [entry.name for entry in fields(ModelSpec) if entry.name != "name"]
    if as_it_is is None or any(case.params.get(size, getattr(as_it_is, size)) != getattr(as_it_is, size) for size in sizes):
        return None
    seq_len = case.params.get("seq_len")
    return Step(name, seq_len, way_of(case.subject)) if isinstance(seq_len, int) else None


def _trained(run: Run, summary: CaseSummary) -> Trained:
    timed = summary.timed
    rates = (
        [timed.cost.tokens / time_s for time_s in timed.seconds if time_s > 0] if timed is not None and timed.cost.tokens else []
    )
    with_time = [row for row in summary.counted if row.measurement(TIME) is not None]
    return Trained(
        outcome=summary.outcome,
        reason=summary.reason,
        tokens_per_s=spread(rates) if rates else None,
        steps=min((_steps(row) for row in with_time), default=0) if rates else None,
        waited=bool(rates) and any(_waited(row) for row in with_time),
        settled=all(known) if (known := [row.conditions["warmup_stable"] for row in with_time if _tells_warmup(row)]) else None,
        peak=summary.values.get(TOTAL),
        n=summary.counts.get(summary.status, 0),
        run=run,
        result=summary.counted[0],
    )


def _steps(row: Result) -> int:
    """Samples of its time, before they were thinned out."""
    time = row.measurement(TIME)
    return 0 if time is None else samples_before(time.note) or len(time.samples)


def _tells_warmup(row: Result) -> bool:
    return isinstance(row.conditions.get("warmup_stable"), bool)


def _waited(row: Result) -> bool:
    """By the flag of its timer. Rows that do not tell how far the host was ahead were flagged for any step that it did not launch whole
    in time: of them what enqueueing took decides, by the timer's rule of today."""
    conditions, time = row.conditions, row.measurement(TIME)
    if conditions.get("launch_bound") is not True:
        return False
    enqueued_s = conditions.get("enqueue_s")
    if "host_ahead_share" in conditions or not isinstance(enqueued_s, int | float) or time is None or not time.samples:
        return True
    return 1 - enqueued_s / median(time.samples) < AHEAD_SHARE
