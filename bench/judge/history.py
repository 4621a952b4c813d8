"""One series over its runs: a point a run, what changed in code and environment between points, steps, and drift against the best.

Events are derived anew each time, so one that new points take away is gone: nothing has to be retracted. An event is a step for the worse
from which the series has not recovered. A provisional step (fewer than five points after it) may still go away, a weak one (the second
fit lacks it) may be none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import SelectionError
from bench.judge.changepoints import SMALLEST_STEP, ChangePoint, change_points
from bench.judge.environment_diff import Difference, differences, environments_of
from bench.judge.evidence import Evidence, TrialRow
from bench.judge.screen import FLOOR, Screening, screen
from bench.judge.sides import ASIDE
from bench.judge.thresholds import ERROR_SHARE, absolute_floor
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
    revision: str = ""
    """What was under test, in short."""


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

    @property
    def drift(self) -> float | None:
        """The last segment over the best: what many small steps add up to, which no comparison with a neighbour sees."""
        return self.latest / self.best if self.best and self.latest else None


def runs_at_rest(store: Store, *, suite: str | None, last: int) -> list[Run]:
    """The newest `last` runs that have ended, oldest first; without those that only looked at some rows again."""
    ended = [run for run in store.runs(suite=suite) if run.state is not RunState.RUNNING and run.reason not in ASIDE]
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


Known = Mapping[str, tuple[Series, Sequence[TrialRow]]]
"""By its key, a series with its rows."""


def series_of(evidence: Evidence, metrics: Iterable[str]) -> Known:
    """The series that have a number of one of these metrics, canaries included. Errors by their share of a limit have no history."""
    groups: dict[tuple[str, str, str, int], list[TrialRow]] = {}
    for row in evidence.trials:
        groups.setdefault((row.case_key, row.arm, row.hard_hash, row.method_version), []).append(row)
    wanted = [metric for metric in metrics if metric != ERROR_SHARE]
    found: dict[str, tuple[Series, Sequence[TrialRow]]] = {}
    for (case_key, arm, hard_hash, method), rows in groups.items():
        for metric in wanted:
            if own := [row for row in rows if metric in row.medians]:
                series = Series(evidence.cases[case_key], case_key, metric, hard_hash, method, arm)
                found[series.key] = series, own
    return found


def history(series: Series, rows: Sequence[TrialRow], evidence: Evidence) -> History:
    """The history of one series, oldest point first. Runs without a usable number of it give no point."""
    by_run: dict[str, list[TrialRow]] = {}
    for row in rows:
        value = row.medians.get(series.metric)
        if value is not None and 0 < value < math.inf:
            by_run.setdefault(row.run_id, []).append(row)
    runs = sorted((run for run in evidence.runs if run.id in by_run), key=lambda run: (run.started_at, run.id))
    points: list[Point] = []
    for run in runs:
        own = by_run[run.id]
        before = by_run[points[-1].run.id] if points else own
        changed = differences(environments_of(evidence, before), environments_of(evidence, own))
        values = [row.medians[series.metric] or 0.0 for row in own]
        points.append(Point(run, median(values), len(own), changed, _revision(run)))
    values = [point.value for point in points]
    if not values:
        return History(series, ())
    amount = absolute_floor(series.metric, series.case.workload) / median(values)
    screening = screen(values, floor=max(FLOOR, amount))
    if len(points) < FEWEST_FOR_STEPS:
        return History(series, tuple(points), screening)
    floor = max(SMALLEST_STEP, amount)
    changes = change_points(values, floor=floor)
    edges = [0, *(change.index for change in changes), len(values)]
    levels = [median(values[start:end]) for start, end in itertools.pairwise(edges)]
    steps = tuple(_step(position, change, levels, points, floor) for position, change in enumerate(changes))
    return History(series, tuple(points), screening, steps, min(levels), levels[-1])


def _step(position: int, change: ChangePoint, levels: Sequence[float], points: Sequence[Point], floor: float) -> Step:
    recovered = levels[-1] <= levels[position] * (1 + floor)
    facts = tuple(difference.name for difference in points[change.index].environment)
    return Step(change, change.ratio > 1, recovered and change.ratio > 1, facts)


def _revision(run: Run) -> str:
    words = (f"{item.name} {(item.commit or '')[:9] or item.version or '?'}{'+' if item.dirty else ''}" for item in run.revision)
    return ", ".join(words)
