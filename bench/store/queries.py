"""Rows out of the tables as records, with few queries however many rows there are."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, false, func, literal, select

from bench.catalogue.names import nearest
from bench.errors import SelectionError
from bench.records import EXTERNAL, IMPORTED, IN_TURN, Case, Environment, Measurement, Result, Run, RunState, Status, TrialKey
from bench.store import rows
from bench.store.blobs import unpack_log
from bench.store.column_types import FreeText
from bench.store.failures import Unreadable
from bench.store.models import (
    Base,
    CaseParamRow,
    CaseRow,
    CheckRow,
    EnvironmentItemRow,
    EnvironmentRow,
    LogRow,
    MeasurementRow,
    PinRow,
    ResultRow,
    RevisionItemRow,
    RunRow,
    SampleRow,
    SubjectRow,
    ThinnedRow,
)
from bench.store.thinning import thinned_log, thinned_measurement

_CHUNK = 500
"""Values of one IN list: far below what SQLite and PostgreSQL allow."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done:
    """A trial that has a row."""

    result_id: str
    status: Status
    block: int
    excluded_reason: str | None


@dataclass(frozen=True, slots=True)
class Pin:
    """Why `bench db gc` leaves a run whole."""

    run_id: str
    reason: str
    pinned_at: str
    """UTC, ISO 8601."""


@dataclass(slots=True)
class Shared:
    """What many results share, read once. Cases and environments never change, so nothing here grows old."""

    cases: dict[str, Case] = field(default_factory=dict)
    environments: dict[str, Environment] = field(default_factory=dict)


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(values)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk


def load_runs(connection: Connection, condition: ColumnElement[bool] | None = None) -> list[Run]:
    """Runs, newest first."""
    statement = select(RunRow.__table__)
    items = select(RevisionItemRow.__table__).order_by(RevisionItemRow.run_id, RevisionItemRow.ordinal)
    if condition is not None:
        statement = statement.where(condition)
        items = items.join(RunRow, RunRow.id == RevisionItemRow.run_id).where(condition)
    with _decoding():
        revision = _grouped(connection, items, "run_id")
        found = [rows.run_record(row, revision.get(row.id, ())) for row in connection.execute(statement)]
    # Sorted here, since databases differ in how they order text.
    return sorted(found, key=lambda run: (run.started_at, run.id), reverse=True)


def load_results(
    connection: Connection, shared: Shared, condition: ColumnElement[bool], metrics: Sequence[str] | None = None
) -> list[Result]:
    """All results for which `condition` (over `ResultRow`) holds, in the order in which they were planned within each run.

    With `metrics` only those measurements, and neither checks nor logs: a part of the record, many times as fast.
    """
    found = connection.execute(select(ResultRow.__table__).where(condition)).all()
    load_cases(connection, shared, {row.case_key for row in found})
    load_environments(connection, shared, {row.environment_id for row in found})
    samples, measurements = _children(SampleRow, condition), _children(MeasurementRow, condition)
    if metrics is not None:
        wanted = [_asked(metric) for metric in metrics]
        samples, measurements = samples.where(SampleRow.metric.in_(wanted)), measurements.where(MeasurementRow.metric.in_(wanted))
    blobs = {(row.result_id, row.metric, row.scope): row for row in connection.execute(samples)}
    measured = _grouped(connection, measurements.order_by(MeasurementRow.ordinal), "result_id")
    thinned = {row.result_id: row for row in connection.execute(_children(ThinnedRow, condition))}
    checked, logs = ({}, {}) if metrics is not None else _evidence(connection, condition, thinned)
    with _decoding():
        results = [
            rows.result_record(
                row,
                shared.cases[row.case_key],
                shared.environments[row.environment_id],
                tuple(
                    measurement(m, blobs.get((m.result_id, m.metric, m.scope)), thinned.get(row.id))
                    for m in measured.get(row.id, ())
                ),
                tuple(rows.check_record(check) for check in checked.get(row.id, ())),
                logs.get(row.id, ""),
            )
            for row in found
        ]
    return sorted(results, key=lambda r: (r.run_id, r.trial.block, r.trial.attempt, r.trial.position, r.id))


def _evidence(
    connection: Connection, condition: ColumnElement[bool], thinned: Mapping[str, Row[Any]]
) -> tuple[dict[str, list[Row[Any]]], dict[str, str]]:
    """Checks and logs by result."""
    checked = _grouped(connection, _children(CheckRow, condition).order_by(CheckRow.ordinal), "result_id")
    with _decoding():
        logs = {row.result_id: unpack_log(row.encoding, row.data) for row in connection.execute(_children(LogRow, condition))}
    return checked, logs | {one: thinned_log(row.log_at) for one, row in thinned.items() if row.log_at is not None}


def measurement(row: Any, blob: Any | None, thinned: Any | None) -> Measurement:
    """The record of a row of `measurement`, with its rows of `sample` and `thinned`. Raises ValueError where they do not read."""
    if blob is None and row.n > 1 and thinned is not None and thinned.samples_at is not None:
        rows.known_unit(row.metric, row.unit)
        if row.median is None:
            raise ValueError(f"the {row.n} samples of {row.metric} were dropped, and there is no median")
        return thinned_measurement(row, thinned.samples_at)
    return rows.measurement_record(row, blob)


def known_runs(connection: Connection, run_ids: Iterable[str]) -> set[str]:
    """Those of `run_ids` that are stored."""
    return {
        found for chunk in chunks(run_ids) for found in connection.execute(select(RunRow.id).where(RunRow.id.in_(chunk))).scalars()
    }


def known_results(connection: Connection, result_ids: Iterable[str]) -> set[str]:
    """Those of `result_ids` that are stored."""
    chosen = (select(ResultRow.id).where(ResultRow.id.in_(chunk)) for chunk in chunks(result_ids))
    return {found for statement in chosen for found in connection.execute(statement).scalars()}


def running(connection: Connection) -> list[tuple[str, str]]:
    """Id and start of each run that is marked running."""
    found = select(RunRow.id, RunRow.started_at).where(RunRow.state == RunState.RUNNING.value).order_by(RunRow.id)
    return [(row.id, row.started_at) for row in connection.execute(found)]


def count_runs(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(RunRow)).scalar_one())


def count_results(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(ResultRow)).scalar_one())


def load_done(connection: Connection, run_id: str) -> dict[TrialKey, Done]:
    r = ResultRow
    statement = select(r.id, r.case_key, r.arm, r.trial_index, r.attempt, r.status, r.block, r.excluded_reason).where(
        r.run_id == run_id
    )
    return {
        (row.case_key, row.arm, row.trial_index, row.attempt): Done(row.id, Status(row.status), row.block, row.excluded_reason)
        for row in connection.execute(statement)
    }


def load_exclusions(connection: Connection, run_id: str) -> dict[str, str]:
    """Reasons by id of the result."""
    excluded = select(ResultRow.id, ResultRow.excluded_reason).where(ResultRow.run_id == run_id)
    return {row.id: row.excluded_reason for row in connection.execute(excluded.where(ResultRow.excluded_reason.is_not(None)))}


def load_pins(connection: Connection) -> list[Pin]:
    statement = select(PinRow.run_id, PinRow.reason, PinRow.pinned_at).order_by(PinRow.run_id, PinRow.reason)
    return [Pin(*row) for row in connection.execute(statement)]


def find_run(connection: Connection, text: str) -> Run:
    """By full id, `latest` (of those measured by bench), label, or unique prefix of an id, tried in this order. Raises SelectionError."""
    if text == "latest":
        measured = select(RunRow.id).where(RunRow.reason.not_in((IMPORTED, EXTERNAL, *IN_TURN)))
        latest = connection.execute(measured.order_by(RunRow.started_at.desc(), RunRow.id.desc()).limit(1)).scalar()
        if latest is None and connection.execute(select(RunRow.id).limit(1)).first() is not None:
            raise SelectionError(
                "the database holds only audits, or only what was imported from other tools: name one of its runs (`bench show`)"
            )
        if latest is None:
            raise SelectionError("the database holds no run yet. `bench run` makes one")
        return load_runs(connection, RunRow.id == latest)[0]
    exact = load_runs(connection, RunRow.id == _asked(text))
    if exact:
        return exact[0]
    found = load_runs(connection, RunRow.label == text) or load_runs(connection, _starts_with(RunRow.id, text))
    if len(found) == 1:
        return found[0]
    if not found:
        labels = [label for label in connection.execute(select(RunRow.label).distinct()).scalars() if label]
        near = nearest(text, ["latest", *labels])
        hint = f" (did you mean {_short(near)!r}?)" if near else ""
        raise SelectionError(f"no run has the id or label {_short(text)!r}{hint}. `bench show` lists what there is")
    shown = ", ".join(f"{run.id} ({run.started_at})" for run in found[:5])
    raise SelectionError(
        f"{len(found)} runs answer to {_short(text)!r}: {shown}{' ...' if len(found) > 5 else ''}. Give the id of one"
    )


def find_result_id(connection: Connection, text: str) -> str:
    """By full id or unique prefix. Raises SelectionError."""
    exact = connection.execute(select(ResultRow.id).where(ResultRow.id == _asked(text))).scalar()
    if exact is not None:
        return exact
    found = (
        connection.execute(select(ResultRow.id).where(_starts_with(ResultRow.id, text)).order_by(ResultRow.id).limit(6))
        .scalars()
        .all()
    )
    if len(found) == 1:
        return found[0]
    if not found:
        raise SelectionError(f"no result has the id {_short(text)!r}")
    more = " ..." if len(found) > 5 else ""
    raise SelectionError(f"several results answer to {_short(text)!r}: {', '.join(found[:5])}{more}. Give more of the id")


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _asked(text: str) -> ColumnElement[str]:
    """What a user typed, which may hold anything."""
    return literal(text, FreeText())


def _starts_with(column: Any, prefix: str) -> ColumnElement[bool]:
    # Not LIKE: a user's % or _ is a letter here, and SQLite's LIKE ignores case.
    return false() if not prefix else func.substr(column, 1, len(prefix)) == _asked(prefix)


def _children(model: Any, condition: ColumnElement[bool]) -> Select[Any]:
    return select(model.__table__).join(ResultRow, ResultRow.id == model.result_id).where(condition)


def _grouped(connection: Connection, statement: Select[Any], by: str) -> dict[str, list[Row[Any]]]:
    groups: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(statement):
        groups.setdefault(getattr(row, by), []).append(row)
    return groups


def load_cases(connection: Connection, shared: Shared, keys: set[str]) -> None:
    for wanted in chunks(sorted(keys - shared.cases.keys())):
        subjects = _grouped(connection, _of(SubjectRow, SubjectRow.case_key, wanted), "case_key")
        params = _grouped(connection, _of(CaseParamRow, CaseParamRow.case_key, wanted).order_by(CaseParamRow.ordinal), "case_key")
        with _decoding():
            for row in connection.execute(_of(CaseRow, CaseRow.key, wanted)):
                shared.cases[row.key] = rows.case_record(row, subjects.get(row.key, ()), params.get(row.key, ()))
        _require(shared.cases.keys(), wanted)


def load_environments(connection: Connection, shared: Shared, ids: set[str]) -> None:
    for wanted in chunks(sorted(ids - shared.environments.keys())):
        items = _grouped(connection, _of(EnvironmentItemRow, EnvironmentItemRow.environment_id, wanted), "environment_id")
        there = connection.execute(select(EnvironmentRow.id).where(EnvironmentRow.id.in_(wanted))).scalars().all()
        _require(there, wanted)
        with _decoding():
            for environment_id in wanted:
                shared.environments[environment_id] = rows.environment_record(items.get(environment_id, ()))


def _require(there: Container[str], wanted: Sequence[str]) -> None:
    """What rows are joined to without asking the database must be there."""
    if missing := [key for key in wanted if key not in there]:
        raise Unreadable(f"{missing[0]} is not there")


@contextmanager
def _decoding() -> Iterator[None]:
    """What a row that does not read raises becomes Unreadable."""
    try:
        yield
    except Unreadable:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def _of(model: type[Base], column: Any, values: Sequence[str]) -> Select[Any]:
    return select(model.__table__).where(column.in_(values))
