"""Is the database sound? Looks at every row, changes nothing, and says in sentences what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, exists, func, select, text

from bench.records import Environment, RunState, Status
from bench.store import queries, rows, schema
from bench.store.models import (
    Base,
    CaseRow,
    EnvironmentItemRow,
    EnvironmentRow,
    LogRow,
    MeasurementRow,
    ResultRow,
    RunRow,
    SampleRow,
    ThinnedRow,
)


def check(connection: Connection, shown: str, *, running: bool = True) -> list[str]:
    """Findings, a sentence each; [] where the database is sound.

    With `running` a run that is still marked so is a finding, since its process may have been killed.
    """
    if connection.dialect.name == "sqlite":
        damage = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check")) if row[0] != "ok"]
        if damage:
            # Nothing else can be trusted in a damaged file.
            return [f"the file is damaged: {line}" for line in damage]
    return [
        *_schema(connection, shown),
        *_orphans(connection),
        *(_runs(connection) if running else ()),
        *_results(connection),
        *_samples(connection),
        *_logs(connection),
        *_fingerprints(connection),
    ]


def _schema(connection: Connection, shown: str) -> Iterator[str]:
    revision = schema.found_revision(connection, shown)
    if revision != schema.REVISIONS[-1]:
        yield f"the schema is {revision}, not {schema.REVISIONS[-1]}: run `bench db upgrade`"


def _orphans(connection: Connection) -> Iterator[str]:
    for table in Base.metadata.sorted_tables:
        for key in table.foreign_keys:
            parent = key.column
            lost = ~exists(select(parent).where(parent == key.parent))
            count = connection.execute(select(func.count()).select_from(table).where(lost)).scalar_one()
            if count:
                yield f"{count} rows of {table.name} point to a {parent.table.name} that is not there"


def _runs(connection: Connection) -> Iterator[str]:
    running = select(RunRow.id, RunRow.started_at).where(RunRow.state == RunState.RUNNING.value).order_by(RunRow.id)
    for run in connection.execute(running):
        resume = f"`bench run --resume {run.id}`"
        yield f"run {run.id} (started {run.started_at}) is marked running: if no process works on it, finish it with {resume}"


def _results(connection: Connection) -> Iterator[str]:
    timed = exists(
        select(MeasurementRow.result_id).where(MeasurementRow.result_id == ResultRow.id, MeasurementRow.metric == "time_s")
    )
    for result_id in connection.execute(select(ResultRow.id).where(ResultRow.status == Status.OK.value, ~timed)).scalars():
        yield f"result {result_id} is ok but has no time_s"


def _samples(connection: Connection) -> Iterator[str]:
    m, s = MeasurementRow, SampleRow
    same = (s.result_id == m.result_id) & (s.metric == m.metric) & (s.scope == m.scope)
    t = ThinnedRow
    columns = (m.result_id, m.metric, m.scope, m.n, m.median, s.encoding, s.data, t.samples_at)
    stray = connection.execute(select(func.count()).select_from(s).where(~exists(select(m.result_id).where(same)))).scalar_one()
    if stray:
        yield f"{stray} rows of sample belong to no measurement"
    statement = select(*columns).select_from(m).outerjoin(s, same).outerjoin(t, t.result_id == m.result_id).order_by(m.result_id)
    for row in _streamed(connection, statement):
        where = f"result {row.result_id}, {row.metric} ({row.scope})"
        if row.n == 1:
            if row.median is None:
                yield f"{where}: the only sample is missing"
            continue
        if row.data is None:
            if row.samples_at is None:
                yield f"{where}: its {row.n} samples are missing"
            elif row.median is None:
                yield f"{where}: its {row.n} samples were dropped, and there is no median"
            continue
        try:
            samples = rows.unpack_samples(row.encoding, row.data)
        except ValueError as error:
            yield f"{where}: {error}"
            continue
        if len(samples) != row.n:
            yield f"{where}: {len(samples)} samples where n is {row.n}"
        elif rows.derived(samples)["median"] != row.median:
            yield f"{where}: the median of the samples is not the one stored"


def _logs(connection: Connection) -> Iterator[str]:
    for row in _streamed(connection, select(LogRow.result_id, LogRow.encoding, LogRow.data)):
        try:
            rows.unpack_log(row.encoding, row.data)
        except ValueError as error:
            yield f"result {row.result_id}: {error}"


def _fingerprints(connection: Connection) -> Iterator[str]:
    """Cases and environments are found by their hash, so a row that does not hash to its key would be joined to wrong results."""
    for keys in queries.chunks(connection.execute(select(CaseRow.key).order_by(CaseRow.key)).scalars().all()):
        shared = queries.Shared()
        queries.load_cases(connection, shared, set(keys))
        for key, case in shared.cases.items():
            if case.key != key:
                yield f"case {key} has another content than its key says"
    sides: dict[str, dict[str, dict[str, Any]]] = {}
    for item in connection.execute(select(EnvironmentItemRow.__table__)):
        sides.setdefault(item.environment_id, {"hard": {}, "soft": {}})[item.side][item.name] = json.loads(item.value)
    for row in connection.execute(select(EnvironmentRow.__table__).order_by(EnvironmentRow.id)):
        found = sides.get(row.id, {"hard": {}, "soft": {}})
        if rows.environment_row(Environment(found["hard"], found["soft"])) != dict(row._mapping):
            yield f"environment {row.id} has another content than its key says"


def _streamed(connection: Connection, statement: Any) -> Iterator[Any]:
    yield from connection.execute(statement.execution_options(yield_per=1000))
