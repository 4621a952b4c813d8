"""Is the database sound? Looks at every row, changes nothing, and says in sentences what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, exists, func, select, text
from sqlalchemy.exc import DBAPIError

from bench.records import INTERPRETER, Environment, Status
from bench.store import queries, rows, schema
from bench.store.failures import undecodable
from bench.store.models import (
    Base,
    CaseRow,
    EnvironmentItemRow,
    EnvironmentRow,
    MeasurementRow,
    ResultRow,
    SampleRow,
)
from bench.store.unreadable import Found, all_text, excluded, measurements, unreadable

"""Where rows have numbers and memory and never a time."""
_OF_VALUES = ("CHECK constraint failed in ", "NUMERIC value in ", "TEXT value in ")
"""What SQLite says of values, without saying whose: they are looked for one by one."""


def check(connection: Connection, shown: str, *, running: bool = True) -> list[str]:
    """Findings, a sentence each; [] where the database is sound.

    With `running` a run that is still marked so is a finding, since its process may have been killed.
    """
    if connection.dialect.name == "sqlite":
        said = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
        damage = [line for line in said if line != "ok" and not line.startswith(_OF_VALUES)]
        if damage:
            # Nothing else can be trusted in a damaged file.
            return [f"the file is damaged: {line}" for line in damage]
    if schema_is_old := list(_schema(connection, shown)):
        return schema_is_old
    try:
        return _findings(connection, running=running, broken_text=False)
    except DBAPIError as error:
        if not undecodable(error):
            raise
    with all_text(connection):
        return _findings(connection, running=running, broken_text=True)


def _findings(connection: Connection, *, running: bool, broken_text: bool) -> list[str]:
    bad = list(unreadable(connection, measured=False, broken_text=broken_text))
    samples = list(_samples(connection))
    known = {one.id for one in bad}
    for one in samples:
        if isinstance(one, Found) and one.id not in known:
            known.add(one.id)
            bad.append(one)
    aside = excluded(connection, bad)
    return [
        *(f"{one}{' (it is excluded, so it is left out of all that is read)' if one.id in aside else ''}" for one in bad),
        *_orphans(connection),
        *(_runs(connection) if running else ()),
        *_results(connection),
        *(one for one in samples if isinstance(one, str)),
        *_fingerprints(connection, {one.id for one in bad if one.kind != "result"}),
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
    for run_id, started_at in queries.running(connection):
        resume = f"`bench run --resume {run_id}`"
        yield f"run {run_id} (started {started_at}) is marked running: if no process works on it, finish it with {resume}"


def _results(connection: Connection) -> Iterator[str]:
    timed = exists(
        select(MeasurementRow.result_id).where(MeasurementRow.result_id == ResultRow.id, MeasurementRow.metric == "time_s")
    )
    timeless = exists(select(CaseRow.key).where(CaseRow.key == ResultRow.case_key, CaseRow.device == INTERPRETER))
    found = select(ResultRow.id).where(ResultRow.status == Status.OK.value, ~timed, ~timeless)
    for result_id in connection.execute(found).scalars():
        yield f"result {result_id} is ok but has no time_s"


def _samples(connection: Connection) -> Iterator[Found | str]:
    m, s = MeasurementRow, SampleRow
    same = (s.result_id == m.result_id) & (s.metric == m.metric) & (s.scope == m.scope)
    stray = connection.execute(select(func.count()).select_from(s).where(~exists(select(m.result_id).where(same)))).scalar_one()
    if stray:
        yield f"{stray} rows of sample belong to no measurement"
    for row, read in measurements(connection):
        where = f"result {row.result_id}, {row.metric} ({row.scope})"
        if isinstance(read, str):
            yield Found("result", row.result_id, read)
        elif row.data is not None and len(read.samples) != row.n:
            yield f"{where}: {len(read.samples)} samples where n is {row.n}"
        elif row.data is not None and rows.derived(read.samples)["median"] != row.median:
            yield f"{where}: the median of the samples is not the one stored"


def _fingerprints(connection: Connection, strange: set[str]) -> Iterator[str]:
    """Cases and environments are found by their hash, so a row that does not hash to its key would be joined to wrong results.

    Those that do not read, `strange`, have no hash.
    """
    stored = connection.execute(select(CaseRow.key).order_by(CaseRow.key)).scalars()
    for keys in queries.chunks([key for key in stored if key not in strange]):
        shared = queries.Shared()
        queries.load_cases(connection, shared, set(keys))
        for key, case in shared.cases.items():
            if case.key != key:
                yield f"case {key} has another content than its key says"
    sides: dict[str, dict[str, dict[str, Any]]] = {}
    reads = EnvironmentItemRow.environment_id.not_in(strange)
    for item in connection.execute(select(EnvironmentItemRow.__table__).where(reads)):
        sides.setdefault(item.environment_id, {"hard": {}, "soft": {}})[item.side][item.name] = json.loads(item.value)
    for row in connection.execute(
        select(EnvironmentRow.__table__).where(EnvironmentRow.id.not_in(strange)).order_by(EnvironmentRow.id)
    ):
        found = sides.get(row.id, {"hard": {}, "soft": {}})
        if rows.environment_row(Environment(found["hard"], found["soft"])) != dict(row._mapping):
            yield f"environment {row.id} has another content than its key says"
