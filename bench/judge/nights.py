"""Notices what no row of a night can tell: nights that should have been and were not, a GPU that is lost, and strangers' nights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bench.judge.compare import same_question
from bench.judge.sides import hardware_of
from bench.records import NIGHTLY, Run, RunState

if TYPE_CHECKING:
    from bench.store import Store

AUTO, CUDA, CPU = "auto", "cuda", "cpu"
"""What a job may ask for as its device, and what that comes to."""
UNFINISHED, ABSENT = "did not come to its end", "did not run since"
LATE = 1.5
"""Intervals between two nights from which on at least one is missing."""
SHOWN = 3


def missed_nights(runs: Sequence[Run], tonight: Run, *, every_s: float) -> list[str]:
    """What to say of nights of tonight's suite that did not come to an end, or did not begin, since the last whole one.

    Args:
        runs: of any suite and reason; those of the suite with the reason of a night count.
        every_s: how far apart nights are meant to be.

    Where tonight is no night itself there is nothing to say.
    """
    if tonight.reason != NIGHTLY:
        return []
    nights = sorted(
        (run for run in runs if run.suite == tonight.suite and run.reason == NIGHTLY and run.started_at < tonight.started_at),
        key=lambda run: run.started_at,
    )
    whole = [run for run in nights if run.state in (RunState.FINISHED, RunState.BUDGET)]
    last = whole[-1].started_at if whole else ""
    broken = [run for run in nights if run.started_at > last]
    said = [f"the night of {run.started_at[:16]} {UNFINISHED} (run {run.id[:13]} is {run.state})" for run in broken[:SHOWN]]
    began = [run.started_at for run in nights if run.started_at >= last] + [tonight.started_at]
    for before, after in itertools.pairwise(began):
        missing = _missing(before, after, every_s)
        if missing:
            days = ", ".join(moment[:10] for moment in missing[:SHOWN]) + (", …" if len(missing) > SHOWN else "")
            said.append(f"{len(missing)} night{'s' if len(missing) > 1 else ''} {ABSENT} {before[:16]}: {days}")
    return said


def lost_gpu(runs: Sequence[Run], tonight: Run) -> str | None:
    """What to say of a night that took the CPU because its GPU is gone; None where there is nothing to say.

    It is said night after night, whatever else they judge, until the job asks for the CPU (`--device cpu`): that is how somebody says that
    he knows. `runs`: of any suite and reason; those of tonight's suite with the reason of a night count.
    """
    if tonight.reason != NIGHTLY or tonight.device != CPU or tonight.options.get("device", AUTO) != AUTO:
        return None
    before = [
        run.started_at
        for run in runs
        if run.suite == tonight.suite and run.reason == NIGHTLY and run.device == CUDA and run.started_at < tonight.started_at
    ]
    if not before:
        return None
    return (
        f"the GPU is gone: {len(before)} night{'s' if len(before) > 1 else ''} until {max(before)[:16]} ran on one, "
        "and this night found none and took the CPU. Give it back, or say that it is meant: --device cpu (DEVICE=cpu)"
    )


def without_strange(store: Store, nights: Sequence[Run], tonight: Sequence[Run]) -> list[Run]:
    """`nights` without what is no night before this one: of no nightly job, on other hardware, and to another question.

    A database also holds what was imported, such as published rows; nothing of those is missing tonight.
    """
    others = [run for run in nights if run.reason != NIGHTLY and not any(same_question([run], [one]) for one in tonight)]
    mine = {hard_hash for _, hard_hash in hardware_of(store, tonight)} if others else set()
    strange = {run.id for run in others} - {run_id for run_id, hard_hash in hardware_of(store, others) if hard_hash in mine}
    return [run for run in nights if run.id not in strange]


def is_missed(sentence: str) -> bool:
    """Whether a sentence is one of those."""
    return UNFINISHED in sentence or ABSENT in sentence


def _missing(before: str, after: str, every_s: float) -> list[str]:
    """When nights should have begun between two that did."""
    start, end, step = datetime.fromisoformat(before), datetime.fromisoformat(after), timedelta(seconds=every_s)
    found = []
    if (end - start) > LATE * step:
        moment = start + step
        while moment < end - step / 2:
            found.append(moment.isoformat())
            moment += step
    return found
