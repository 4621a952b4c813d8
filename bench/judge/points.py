"""What histories are made of: of each series and run the median over its processes, and nothing else of a trial.

A year of nights is a million processes, so no record is made of any of them.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.judge.evidence import asks_what_fits
from bench.judge.shared_gpu import load_beside
from bench.judge.thresholds import SPEED
from bench.judge.verdict import Series
from bench.records import Case, Environment, Run, Status
from bench.stats import median

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from bench.store import Store

ROWS_AT_ONCE = 10_000
"""One by one they would take twice as long."""

_Key = tuple[str, str, str, str, int, str]
"""Run, case, arm as stored, environment, method's version, metric."""


@dataclass(frozen=True, slots=True)
class Level:
    """One series in one run."""

    value: float
    """Median over its processes, in the metric's unit."""
    n: int
    environments: frozenset[str]
    """Ids of those that the processes had."""
    repeats: bool = False
    """Whether there were several processes, and all had the very same number."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Series over runs. Rows count as in all judging: those that are ok, not excluded, and of the last attempt of their point."""

    runs: tuple[Run, ...]
    """Oldest first."""
    by_series: Mapping[str, tuple[Series, Mapping[str, Level]]]
    """By the key of a series, the series and its levels by the id of the run. A run without a usable number is absent."""
    environments: Mapping[str, Environment]
    disturbed: Mapping[str, tuple[Series, frozenset[str]]] = field(default_factory=dict)
    """By the key of a series, the series and the ids of runs in which it has numbers and none that is used, others being on its GPU."""

    @property
    def cases(self) -> list[Case]:
        """Of all series."""
        return [series.case for series, _ in self.by_series.values()]


def load_levels(store: Store, runs: Sequence[Run], metrics: Collection[str], *, case_key: str | None = None) -> Levels:
    """The levels of these metrics in `runs`, of all cases or of one; canaries included. What others on the GPU disturbed is in no level."""
    from sqlalchemy import Text, literal, select, true, type_coerce

    from bench.store import queries
    from bench.store.models import EnvironmentRow, MeasurementRow, ResultRow

    columns = (
        ResultRow.run_id, ResultRow.case_key, type_coerce(ResultRow.arm, Text), ResultRow.environment_id, ResultRow.method_version,
        type_coerce(MeasurementRow.metric, Text), MeasurementRow.median, ResultRow.attempt,
    )  # fmt: skip
    statement = (
        select(*columns)
        .join(MeasurementRow, MeasurementRow.result_id == ResultRow.id)
        .where(
            ResultRow.status == Status.OK.value,
            ResultRow.excluded_reason.is_(None),
            MeasurementRow.scope == "trial",
            MeasurementRow.metric.in_(metrics),
            MeasurementRow.median > 0,
            MeasurementRow.median <= sys.float_info.max,
            true() if case_key is None else ResultRow.case_key == case_key,
        )
    )
    found: dict[_Key, list[float]] = {}
    aside: dict[_Key, list[float]] = {}
    probing = {run.id for run in runs if asks_what_fits(run)}
    shared = queries.Shared()
    with store.reading() as connection, _without_collection():
        beside = load_beside(connection, runs)
        # Ids cost time, and most databases have nothing to leave out.
        told: Select[Any] = statement.add_columns(ResultRow.id if beside.present else literal(""))
        hard = {row.id: row.hard_hash for row in connection.execute(select(EnvironmentRow.id, EnvironmentRow.hard_hash))}
        arms: dict[str, str] = {}
        for chunk in queries.chunks(run.id for run in runs):
            last = _last_attempts(connection, chunk)
            # As stored, since to read each of them back would take as long as all the rest.
            stored = select(type_coerce(ResultRow.arm, Text).label("stored"), ResultRow.arm.label("arm"))
            arms |= {row.stored: row.arm for row in connection.execute(stored.where(ResultRow.run_id.in_(chunk)).distinct())}
            rows = connection.execute(told.where(ResultRow.run_id.in_(chunk))).partitions(ROWS_AT_ONCE)
            for run_id, case, arm, environment, method, metric, value, attempt, ident in itertools.chain.from_iterable(rows):
                if metric in SPEED and run_id in probing:
                    continue
                if value is not None and (not last or attempt == last.get((run_id, case), attempt)):
                    into = aside if beside.takes(ident, metric, value) else found
                    into.setdefault((run_id, case, arm, environment, method, metric), []).append(value)
        queries.load_cases(connection, shared, {case for _, case, *_ in (*found, *aside)})
        queries.load_environments(connection, shared, {environment for _, _, _, environment, *_ in found})
        by_series = _by_series(found, arms, hard, shared.cases)
        disturbed = {
            key: (series, runs_without)
            for key, (series, by_run) in _by_series(aside, arms, hard, shared.cases).items()
            if (runs_without := frozenset(by_run) - (by_series[key][1].keys() if key in by_series else frozenset()))
        }
    return Levels(tuple(sorted(runs, key=lambda run: (run.started_at, run.id))), by_series, shared.environments, disturbed)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Nothing here is garbage, and the collector would walk through all of it again and again: a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _by_series(
    found: Mapping[_Key, Sequence[float]], arms: Mapping[str, str], hard: Mapping[str, str], cases: Mapping[str, Case]
) -> dict[str, tuple[Series, Mapping[str, Level]]]:
    groups: dict[tuple[str, str, str, int, str], dict[str, dict[str, Sequence[float]]]] = {}
    for (run_id, case, arm, environment, method, metric), values in found.items():
        group = groups.setdefault((case, arm, hard[environment], method, metric), {})
        group.setdefault(run_id, {})[environment] = values
    by_series: dict[str, tuple[Series, Mapping[str, Level]]] = {}
    for (case, arm, hard_hash, method, metric), by_run in groups.items():
        series = Series(cases[case], case, metric, hard_hash, method, arms[arm])
        by_series[series.key] = series, {run_id: _level(by_environment) for run_id, by_environment in by_run.items()}
    return by_series


def _level(by_environment: Mapping[str, Sequence[float]]) -> Level:
    values = [value for some in by_environment.values() for value in some]
    return Level(median(values), len(values), frozenset(by_environment), repeats=len(values) > 1 and min(values) == max(values))


def _last_attempts(connection: Connection, run_ids: Sequence[str]) -> dict[tuple[str, str], int]:
    """Of points that were begun anew, the last attempt by run and case; most runs have none."""
    from sqlalchemy import func, select

    from bench.store.models import CaseRow, ResultRow

    points = select(ResultRow.run_id, CaseRow.point_key, func.max(ResultRow.attempt).label("last"))
    points = points.join(CaseRow, CaseRow.key == ResultRow.case_key).where(ResultRow.run_id.in_(run_ids), ResultRow.attempt > 0)
    again = points.group_by(ResultRow.run_id, CaseRow.point_key).subquery()
    cases = select(again.c.run_id, CaseRow.key, again.c.last).join(CaseRow, CaseRow.point_key == again.c.point_key)
    return {(run_id, case): last for run_id, case, last in connection.execute(cases)}
