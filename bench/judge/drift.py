"""What many small steps have added up to, told on the first night on which it is firm: none of these nights was beyond its own limit.

A night is held against the twenty before it, which creep along with it. Here the latest level of a series is held against its best one,
by the test that a step has to pass. What nights have told, two suspects in a row, is not told again: only what came after it counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.judge.changepoints import FEWEST_POINTS, P_KEPT, change_points, p_apart
from bench.judge.floors import step_floor
from bench.judge.history import FEWEST_FOR_STEPS
from bench.judge.screen import FLOOR, Sight, screen
from bench.stats import median

if TYPE_CHECKING:
    from bench.judge.points import Levels
    from bench.judge.verdict import Series
    from bench.records import Case

SHARE = 0.05
"""By which the latest level is worse than the best."""
SETTLED_NIGHTS = 5
"""Nights on none of which it was firm, before it is new: what comes and goes with every point is told once."""
NEAR = 0.25
"""Of the way between two levels: what is nearer to one of them than this is at that one."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Drift:
    """One series that has drifted."""

    series: Series
    ratio: float
    """Its latest level over its best one."""
    again: bool = False
    """Whether it has been at the latest level before and come back from there."""


def firm_drift(values: Sequence[float], *, floor: float) -> float | None:
    """The latest level of a series over its best since the last that nights have told; None where that is not firm, or too little.

    Args:
        values: above zero, in the order of time.
        floor: the smallest step that is looked for, as a share.
    """
    least = 1 + max(SHARE, floor)
    if not _may_have_drifted(values, least):
        return None
    values = values[_told_until(values, floor) :]
    if not _may_have_drifted(values, least):
        return None
    import numpy as np

    edges = [0, *(change.index for change in change_points(values, floor=floor)), len(values)]
    segments = [values[start:end] for start, end in itertools.pairwise(edges)]
    best, last = min(segments, key=median), segments[-1]
    ratio = median(last) / median(best)
    if ratio < least or min(len(best), len(last)) < FEWEST_POINTS or p_apart(np.log(best), np.log(last)) > P_KEPT:
        return None
    return ratio


def new_drift(values: Sequence[float], *, floor: float) -> float | None:
    """The same where tonight is the first night of it; else None."""
    found = firm_drift(values, floor=floor)
    if found is None or any(firm_drift(values[:-nights], floor=floor) is not None for nights in range(1, SETTLED_NIGHTS + 1)):
        return None
    return found


def drifted(levels: Levels, run_ids: Collection[str], *, new: bool) -> list[Drift]:
    """Of the series that these runs have measured, those that have drifted; `new`: as of the last run."""
    look = new_drift if new else firm_drift
    found = []
    for series, by_run in levels.by_series.values():
        if by_run.keys() & run_ids:
            points = [by_run[run.id] for run in levels.runs if run.id in by_run]
            values = [point.value for point in points]
            floor = step_floor(series, values, [point.repeats for point in points])
            if (ratio := look(values, floor=floor)) is not None:
                found.append(Drift(series, ratio, been_there(values, ratio)))
    return found


def been_there(values: Sequence[float], ratio: float) -> bool:
    """Whether a series has been at its latest level before, and at its best one after that: it moves between the two, and does not creep.

    Args:
        values: above zero, in the order of time.
        ratio: its latest level over its best one, above one.
    """
    latest = median(values[-FEWEST_POINTS:])
    share = [math.log(latest / value) / math.log(ratio) for value in values]
    at = [one >= 0.5 for one in share if abs(one) <= NEAR or abs(one - 1) <= NEAR]
    return any(best and not before for before, best in itertools.pairwise(at))


def _may_have_drifted(values: Sequence[float], least: float) -> bool:
    """Whether it is worth finding levels: the last five points are worse than the best five in a row."""
    if len(values) < FEWEST_FOR_STEPS:
        return False
    fives = [median(values[start : start + FEWEST_POINTS]) for start in range(len(values) - FEWEST_POINTS + 1)]
    return fives[-1] >= least * min(fives)


def _told_until(values: Sequence[float], floor: float) -> int:
    """The place after the last of two nights in a row that were suspects for the worse; 0 where there were none."""
    seen = [screen(values[: place + 1], floor=max(FLOOR, floor)).sight is Sight.SUSPECT for place in range(len(values))]
    return max((place + 1 for place in range(1, len(seen)) if seen[place - 1] and seen[place]), default=0)


def drift_words(found: Sequence[Drift], name: Callable[[Case], str], *, machine: bool, words: str) -> str | None:
    """The sentence about series that have drifted; None without one.

    Args:
        machine: whether the canary, which no code under test is in, has drifted as well.
        words: what follows `bench history` in a command.
    """
    if not found:
        return None
    worst = max(found, key=lambda one: one.ratio)
    crept, back = [one for one in found if not one.again], [one for one in found if one.again]
    told = []
    if crept:
        many = f"{len(crept)} series have" if len(crept) > 1 else "1 series has"
        told.append(f"{many} drifted away from the best level in steps too small for any night: {_named(crept, name)}")
    if back:
        many = f"{len(back)} series are back at worse levels" if len(back) > 1 else "1 series is back at a worse level"
        told.append(f"{many} that had been left before: {_named(back, name)}")
    canary = "; so has the canary, so look at the machine first" if machine else ""
    return f"{'; '.join(told)}{canary} (bench history {worst.series.short_key}{words} shows the worst)"


def _named(found: Sequence[Drift], name: Callable[[Case], str]) -> str:
    worst = sorted(found, key=lambda one: -one.ratio)
    told = ", ".join(f"{name(one.series.case)}, {one.series.metric}: {one.ratio:.2f}×" for one in worst[:SHOWN])
    return told + (f" and {len(worst) - SHOWN} more" if len(worst) > SHOWN else "")
