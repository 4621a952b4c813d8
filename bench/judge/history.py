"""One series over its runs: a point a run, what changed in code and environment between points, steps, and drift against the best.

Events are derived anew each time, so one that new points take away is gone; of one series it is told what was (`bench.judge.retracted`). An
event is a step for the worse from which the series has not recovered. A provisional step (fewer than five points after it) may still go
away, a weak one (the second fit lacks it) may be none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.errors import SelectionError
from bench.judge.changepoints import SMALLEST_STEP, ChangePoint, change_points
from bench.judge.environment_diff import Difference, differences
from bench.judge.floors import screen_floor, step_floor
from bench.judge.points import Levels
from bench.judge.retracted import Retracted, retracted
from bench.judge.screen import Screening, screen
from bench.judge.sides import ASIDE
from bench.judge.verdict import Series, series_key
from bench.records import Run, RunState
from bench.stats import median

if TYPE_CHECKING:
    from bench.store import Store

FEWEST_FOR_STEPS = 10
"""Points below which no step is looked for: it could not be told from noise."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a series."""

    run: Run
    value: float
    """Median over its processes, in the metric's unit."""
    n: int
    environment: tuple[Difference, ...] = ()
    """Soft facts that differ from the point before."""
    repeats: bool = False
    """Whether its processes, several of them, had the very same number."""

    @property
    def revision(self) -> str:
        """What was under test, in short."""
        words = (
            f"{item.name} {(item.commit or '')[:9] or item.version or '?'}{'+' if item.dirty else ''}" for item in self.run.revision
        )
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Step:
    """A change point with what it means here."""

    change: ChangePoint
    worse: bool
    recovered: bool
    """Whether the series has come back to the level before it since."""
    environment: tuple[str, ...]
    """Soft facts that changed at that very point: the code cannot be told from them."""

    @property
    def is_event(self) -> bool:
        """Whether it asks for somebody's attention."""
        return self.worse and not self.recovered and self.change.firm and not self.change.provisional


@dataclass(frozen=True, slots=True)
class History:
    """A series with all that was found in it."""

    series: Series
    points: tuple[Point, ...]
    screening: Screening | None = None
    """Of the newest point; None without one."""
    steps: tuple[Step, ...] = ()
    best: float | None = None
    """Median of the best segment; None below ten points."""
    latest: float | None = None
    """Median of the last segment."""
    floor: float = SMALLEST_STEP
    """The smallest step that is looked for, as a share."""
    reference: float | None = None
    """Its level in the run that the latest is held against, whether that is among the points or not."""
    retracted: tuple[Retracted, ...] = ()

    @property
    def against_reference(self) -> float | None:
        """The latest level over the reference's: what a window of nights forgets. Of a short series its newest point."""
        level = self.latest or (self.points[-1].value if self.points else None)
        return level / self.reference if self.reference and level else None

    @property
    def drift(self) -> float | None:
        """The last segment over the best: what many small steps add up to, which no comparison with a neighbour sees."""
        return self.latest / self.best if self.best and self.latest else None


def runs_at_rest(store: Store, *, suite: str | None, last: int, until: str | None = None) -> list[Run]:
    """The newest `last` runs that have ended, oldest first; without those that only looked at some rows again, or began after `until`."""
    ended = [run for run in store.runs(suite=suite) if run.state is not RunState.RUNNING and run.reason not in ASIDE]
    ended = [run for run in ended if until is None or run.started_at <= until]
    return sorted(ended[:last], key=lambda run: (run.started_at, run.id))


def find_series(store: Store, runs: Sequence[Run], text: str, metrics: Iterable[str]) -> str:
    """The key of the case whose series has a key that begins with `text`. Raises SelectionError for none or several series."""
    from sqlalchemy import select

    from bench.store import queries
    from bench.store.models import EnvironmentRow, ResultRow

    columns = ResultRow.case_key, ResultRow.arm, EnvironmentRow.hard_hash, ResultRow.method_version
    statement = select(*columns).join(EnvironmentRow, EnvironmentRow.id == ResultRow.environment_id).distinct()
    groups: set[tuple[str, str, str, int]] = set()
    with store.reading() as connection:
        for chunk in queries.chunks(run.id for run in runs):
            groups |= {
                (row.case_key, row.arm, row.hard_hash, row.method_version)
                for row in connection.execute(statement.where(ResultRow.run_id.in_(chunk)))
            }
    found = {
        key: case_key
        for case_key, arm, hard_hash, method in groups
        for metric in metrics
        if (key := series_key(case_key, arm, metric, hard_hash, method)).startswith(text)
    }
    if len(found) != 1 or not text:
        several = f"{len(found)} series have keys that begin" if found else "no series has a key that begins"
        raise SelectionError(f"{several} with {text!r}. `bench history` lists them")
    return next(iter(found.values()))


def histories(levels: Levels, keys: Iterable[str]) -> list[History]:
    """The history of each series of these keys, oldest point first. Runs without a usable number of it give no point."""
    changes: dict[tuple[frozenset[str], frozenset[str]], tuple[Difference, ...]] = {}

    def changed(before: frozenset[str], after: frozenset[str]) -> tuple[Difference, ...]:
        if before == after:
            return ()
        if (before, after) not in changes:
            sides = ([levels.environments[one] for one in sorted(side)] for side in (before, after))
            changes[before, after] = differences(*sides)
        return changes[before, after]

    found = []
    for key in keys:
        series, by_run = levels.by_series[key]
        present = [(run, by_run[run.id]) for run in levels.runs if run.id in by_run]
        points = [
            Point(run, level.value, level.n, changed(before.environments, level.environments), level.repeats)
            for (_, before), (run, level) in itertools.pairwise([*present[:1], *present])
        ]
        found.append(_history(series, points))
    return found


def _history(series: Series, points: Sequence[Point]) -> History:
    values = [point.value for point in points]
    if not values:
        return History(series, ())
    repeats = [point.repeats for point in points]
    screening = screen(values, floor=screen_floor(series, values, repeats))
    if len(points) < FEWEST_FOR_STEPS:
        return History(series, tuple(points), screening)
    floor = step_floor(series, values, repeats)
    changes = change_points(values, floor=floor)
    edges = [0, *(change.index for change in changes), len(values)]
    levels = [median(values[start:end]) for start, end in itertools.pairwise(edges)]
    steps = tuple(_step(position, change, levels, points, floor) for position, change in enumerate(changes))
    return History(series, tuple(points), screening, steps, min(levels), levels[-1], floor)


def with_retracted(found: History) -> History:
    """With the steps that earlier nights told and that are gone."""
    values = [point.value for point in found.points]
    now = [step.change for step in found.steps]
    return replace(found, retracted=retracted(values, now, fewest=FEWEST_FOR_STEPS, floor=found.floor))


def _step(position: int, change: ChangePoint, levels: Sequence[float], points: Sequence[Point], floor: float) -> Step:
    recovered = levels[-1] <= levels[position] * (1 + floor)
    facts = tuple(difference.name for difference in points[change.index].environment)
    return Step(change, change.ratio > 1, recovered and change.ratio > 1, facts)
