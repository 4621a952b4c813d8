"""What a switch was measured to gain in a whole training step: pairs of rows of one run that differ in that switch alone.

Rows count where they were measured by a suite of ours on the same GPU model. Both sides lie in one run and one point, so that machine,
versions and inputs are the same. A step of another magnitude than the script's says nothing of it: launching and waiting hide there what a
kernel saves here. Of several pairs the one is told whose other slots are nearest to what the script does, then one with an interval, then
whose model and context are nearest; the sentence names them, because a gain elsewhere is a hint and no promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.judge.intervals import log_ratio
from bench.judge.thresholds import CONFIDENCE, FEWEST, MARGIN, TIME, TRAINING_STEP
from bench.judge.verdict import Ratio
from bench.records import Case, Scalar, Status, fingerprint
from bench.stats import median

if TYPE_CHECKING:
    from bench.judge.evidence import Evidence
    from bench.store import Store

MOST_RUNS = 60
"""Newest runs of training steps that are looked at."""
SIZES: Mapping[str, int] = {"hidden_size": 2, "layers": 1, "seq_len": 1, "batch": 1}
"""Parameter to its power in the work of a step."""
FARTHEST = 6.0
"""Powers of two between the work of two steps, up to which the time of one is told for the other."""


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """Time of a step with the switch over that without."""

    ratio: Ratio
    processes: int
    """Of the side with fewer."""
    gpu: str
    model: str
    seq_len: int | None
    batch: int | None
    otherwise: Mapping[str, str]
    """Slots that were filled otherwise than in the script on both sides, with what filled them."""
    run_id: str

    @property
    def promised(self) -> bool:
        """Whether it is faster by more than two processes of one thing differ: by the whole interval, or without one by `MARGIN`."""
        return self.ratio.interval.high < 1 if self.ratio.interval is not None else self.ratio.value < 1 - MARGIN


@dataclass(frozen=True, slots=True)
class _Side:
    case: Case
    medians: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """The training steps that were measured on one GPU model, by run and point."""

    gpu: str
    points: tuple[tuple[str, tuple[_Side, ...]], ...] = ()
    """(run, the subjects of one of its points)."""


def load_measured(store: Store, gpu: str | None) -> Measured | None:
    """What the database holds of this GPU model; None where the model is not known, as on a CPU."""
    from bench.judge.evidence import load_evidence
    from bench.judge.sides import ASIDE

    if gpu is None:
        return None
    runs = [run for run in store.runs() if run.suite_data.get("workload") == TRAINING_STEP and run.reason not in ASIDE][:MOST_RUNS]
    return Measured(gpu, tuple(_points(load_evidence(store, runs, metrics=(TIME,)), gpu)) if runs else ())


def _points(evidence: Evidence, gpu: str) -> Iterator[tuple[str, tuple[_Side, ...]]]:
    here = {one for one, found in evidence.environments.items() if found.hard.get("gpu_model") == gpu}
    sides: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in evidence.trials:
        value = row.medians.get(TIME)
        if row.status is Status.OK and row.environment_id in here and value and not evidence.is_canary(row.case_key):
            point = row.run_id, _point(evidence.cases[row.case_key]), row.hard_hash
            sides.setdefault(point, {}).setdefault(row.case_key, []).append(value)
    for (run_id, *_), by_case in sides.items():
        if len(by_case) > 1:
            yield run_id, tuple(_Side(evidence.cases[key], tuple(found)) for key, found in by_case.items())


def _point(case: Case) -> str:
    """Of a step: precision fills a slot, so the dtype that follows from it makes no other point here."""
    return fingerprint({**case.point_data(), "dtype": None})


def gain_of(measured: Measured, now: Mapping[str, Scalar], change: Mapping[str, str]) -> MeasuredGain | None:
    """The gain of `change` (slot to implementation) over what fills those slots `now`; None where no pair was measured.

    `now` holds what fills the other slots too, and the sizes of `SIZES` as far as they are known.
    """
    found = [
        (_nearness(before, after, now), run_id, before, after)
        for run_id, sides in measured.points
        for before, after in _pairs(sides, now, change)
        if abs(_larger(before.case, now)) <= FARTHEST
    ]
    if not found:
        return None
    nearest = min(one[0] for one in found)
    # Ids of runs sort by time: the newest of equals.
    _, run_id, before, after = max((one for one in found if one[0] == nearest), key=lambda one: one[1])
    params = before.case.params
    return MeasuredGain(
        ratio=_ratio(before.medians, after.medians),
        processes=_processes(before, after),
        gpu=measured.gpu,
        model=str(params.get("model") or "a model"),
        seq_len=_whole(params.get("seq_len")),
        batch=_whole(params.get("batch")),
        otherwise={slot: name for slot, name in before.case.subject.items() if slot in now and now[slot] != name},
        run_id=run_id,
    )


def _pairs(sides: Sequence[_Side], now: Mapping[str, Scalar], change: Mapping[str, str]) -> Iterator[tuple[_Side, _Side]]:
    for before in sides:
        if any(before.case.subject.get(slot) != now.get(slot) for slot in change):
            continue
        wanted = {**before.case.subject, **change}
        for after in sides:
            if dict(after.case.subject) == wanted and after.case.params == before.case.params:
                yield before, after


def _nearness(before: _Side, after: _Side, now: Mapping[str, Scalar]) -> tuple[int, bool, float]:
    """Slots that are filled otherwise than in the script, whether there are too few processes for an interval, how far the sizes are."""
    others = sum(now[slot] != name for slot, name in before.case.subject.items() if slot in now)
    return others, _processes(before, after) < FEWEST, sum(abs(_doublings(before.case, now, name)) for name in SIZES)


def _processes(before: _Side, after: _Side) -> int:
    return min(len(before.medians), len(after.medians))


def _larger(case: Case, now: Mapping[str, Scalar]) -> float:
    """Powers of two between the work of the measured step and the script's."""
    return sum(power * _doublings(case, now, name) for name, power in SIZES.items())


def _doublings(case: Case, now: Mapping[str, Scalar], name: str) -> float:
    """Between two sizes; 0 where one of them is not known."""
    theirs, ours = _whole(case.params.get(name)), _whole(now.get(name))
    return math.log2(theirs / ours) if theirs and ours else 0.0


def _ratio(before: Sequence[float], after: Sequence[float]) -> Ratio:
    if min(len(before), len(after)) < FEWEST:
        return Ratio(median(after) / median(before))
    found = log_ratio([(before, after)])
    return Ratio(math.exp(found.estimate), found.interval(CONFIDENCE))


def _whole(value: Scalar) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
