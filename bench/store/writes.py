"""Rows into the tables, inside a transaction that the caller opened. What many results share is inserted once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Double,
    LargeBinary,
    Text,
    delete,
    or_,
    select,
    text,
    update,
)  # fmt: skip
from sqlalchemy.exc import DBAPIError

from bench.records import Case, Environment, Result, Run, RunState
from bench.store import rows
from bench.store.column_types import FreeText, escaped, needs_escape
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
)
from bench.store.queries import Pin

_COPY_FROM_ROWS = 50


def insert_run(connection: Connection, run: Run) -> None:
    """Raises ValueError where the id is taken."""
    if connection.execute(select(RunRow.id).where(RunRow.id == run.id)).first() is not None:
        raise ValueError(f"run {run.id} is stored already")
    _write(connection, _ready(RunRow, [rows.run_row(run)]))
    _write(connection, _ready(RevisionItemRow, rows.revision_rows(run)))


def taken(connection: Connection, result: Result, case_key: str) -> bool:
    """Whether this trial of its run has a row. Raises ValueError where the result's id names another trial."""
    trial = result.trial
    same_trial = (
        (ResultRow.run_id == result.run_id)
        & (ResultRow.case_key == case_key)
        & (ResultRow.arm == trial.arm)
        & (ResultRow.trial_index == trial.index)
        & (ResultRow.attempt == trial.attempt)
    )
    found = connection.execute(
        select(ResultRow.id, same_trial.label("same")).where(or_(ResultRow.id == result.id, same_trial))
    ).all()
    if any(row.same for row in found):
        return True
    if found:
        raise ValueError(f"the id {result.id} names another trial already")
    return False


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of some results, ready to be written: what they share first, then what is theirs."""

    shared: tuple[Ready, ...]
    own: tuple[Ready, ...]
    keys: frozenset[str]
    """Of the cases and environments among `shared`."""


def prepare(results: Sequence[Result], known: Set[str]) -> Batch:
    """The rows of results whose trials have none yet. `known`: keys of cases and environments that are stored, or will be by then.

    Touches no database. Raises ValueError for a record that cannot be stored.
    """
    cases: dict[str, Case] = {}
    environments: dict[str, Environment] = {}
    environment_rows: list[rows.Row] = []
    # Results of one batch share objects, so what is costly is computed once for each object.
    case_keys: dict[int, str] = {}
    environment_ids: dict[int, str] = {}
    result_rows = []
    for result in results:
        case, environment = result.case, result.environment
        if id(case) not in case_keys:
            key = case_keys[id(case)] = case.key
            if key not in known:
                cases[key] = case
        if id(environment) not in environment_ids:
            row = rows.environment_row(environment)
            environment_ids[id(environment)] = row["id"]
            if row["id"] not in known and row["id"] not in environments:
                environments[row["id"]] = environment
                environment_rows.append(row)
        if len({(m.metric, m.scope) for m in result.measurements}) < len(result.measurements):
            raise ValueError(f"result {result.id} has two measurements of one metric and scope")
        result_rows.append(rows.result_row(result, case_keys[id(case)], environment_ids[id(environment)]))

    shared = (
        _in_order(CaseRow, [rows.case_row(case, key) for key, case in cases.items()]),
        _in_order(SubjectRow, [row for key, case in cases.items() for row in rows.subject_rows(case, key)]),
        _in_order(CaseParamRow, [row for key, case in cases.items() for row in rows.param_rows(case, key)]),
        _in_order(EnvironmentRow, environment_rows),
        _in_order(
            EnvironmentItemRow,
            [row for key, environment in environments.items() for row in rows.environment_item_rows(environment, key)],
        ),
    )
    measured = [(result.id, ordinal, m) for result in results for ordinal, m in enumerate(result.measurements)]
    own = (
        _ready(ResultRow, result_rows),
        _ready(MeasurementRow, [rows.measurement_row(*one) for one in measured]),
        _ready(SampleRow, [rows.sample_row(owner, m) for owner, _, m in measured if len(m.samples) > 1]),
        _ready(CheckRow, [rows.check_row(result.id, n, check) for result in results for n, check in enumerate(result.checks)]),
        _ready(LogRow, [rows.log_row(result.id, result.log) for result in results if result.log]),
    )
    return Batch(shared, own, frozenset((*cases, *environments)))


def write(connection: Connection, batch: Batch, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Rows that others have stored meanwhile are skipped where they are shared.

    `meanwhile` is called once: just before a server is waited for that has all numbers, and now looks whose they are.
    """
    for one in batch.shared:
        _write(connection, one, " ON CONFLICT DO NOTHING")
    for one in batch.own:
        if one.model is MeasurementRow:
            _write(connection, one, meanwhile=meanwhile)
        else:
            _write(connection, one)


def insert_results(connection: Connection, results: Sequence[Result], known: Set[str]) -> frozenset[str]:
    """Inserts results whose trials have no row yet, with what they share.

    `known` holds keys of cases and environments that are stored for sure. Returns those that are stored when the transaction commits.
    """
    batch = prepare(results, known)
    write(connection, batch)
    return batch.keys


def insert_batches(connection: Connection, batches: Iterable[Sequence[Result]], known: Set[str]) -> set[str]:
    """The same for many batches. While a server is busy with one, the next is made ready; SQLite works in this process itself."""
    seen = set(known)
    if connection.dialect.name == "sqlite":
        for results in batches:
            seen |= insert_results(connection, results, seen)
        return seen - known

    def next_one(results: Sequence[Result]) -> Batch:
        batch = prepare(results, seen)
        seen.update(batch.keys)
        return batch

    waiting = iter(batches)
    with ThreadPoolExecutor(1) as beside:
        following = [beside.submit(next_one, results) for results in itertools.islice(waiting, 1)]
        while following:
            ready = following.pop().result()
            # Taken here and not in `meanwhile`: to take it may ask the database, which is busy then.
            coming = list(itertools.islice(waiting, 1))
            write(connection, ready, lambda: following.extend(beside.submit(next_one, results) for results in coming))  # noqa: B023
    return seen - known


def lock_for_ingest(connection: Connection) -> None:
    """Keeps other writers of runs and results out until the transaction ends. SQLite has done so when it began."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE run, result IN SHARE ROW EXCLUSIVE MODE"))


def finish_run(
    connection: Connection, run_id: str, state: RunState, finished_at: str | None, planned_trials: int | None = None
) -> bool:
    """False where there is no such run. `planned_trials` stays what it was where it is None."""
    values = {"state": state.value, "finished_at": finished_at}
    known = {} if planned_trials is None else {"planned_trials": planned_trials}
    changed = connection.execute(update(RunRow).where(RunRow.id == run_id).values(**values, **known))
    return changed.rowcount > 0


def exclude(connection: Connection, result_id: str, reason: str) -> bool:
    """False where there is no such result. The first reason stays."""
    if connection.execute(select(ResultRow.id).where(ResultRow.id == result_id)).first() is None:
        return False
    standing = (ResultRow.id == result_id) & ResultRow.excluded_reason.is_(None)
    connection.execute(update(ResultRow).where(standing).values(excluded_reason=reason))
    return True


def exclude_run(connection: Connection, run_id: str, reason: str) -> int:
    """Excludes all results of a run that are not excluded yet; returns how many."""
    standing = (ResultRow.run_id == run_id) & ResultRow.excluded_reason.is_(None)
    return connection.execute(update(ResultRow).where(standing).values(excluded_reason=reason)).rowcount


def pin(connection: Connection, one: Pin) -> None:
    """Pins a run that is stored; a second pin for the same reason changes nothing."""
    insert_missing(connection, PinRow, [{"run_id": one.run_id, "reason": one.reason, "pinned_at": one.pinned_at}])


def unpin(connection: Connection, run_id: str, reason: str | None) -> int:
    """Takes the pin for one reason away, or all; returns how many there were."""
    statement = delete(PinRow).where(PinRow.run_id == run_id)
    return connection.execute(statement if reason is None else statement.where(PinRow.reason == reason)).rowcount


def insert_missing(connection: Connection, model: type[Base], values: list[rows.Row]) -> None:
    """Skips rows whose key is stored already: another process may have been faster."""
    _write(connection, _in_order(model, values), " ON CONFLICT DO NOTHING")


# --- one statement of the driver for all rows: SQLAlchemy's own costs more time for each row than the database ----------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """Rows of one table as the driver takes them."""

    model: type[Base]
    tuples: Sequence[tuple[Any, ...]]


def _in_order(model: type[Base], values: list[rows.Row]) -> Ready:
    """In one order everywhere, so that two transactions never wait for each other."""
    values.sort(key=itemgetter(*(column.name for column in model.__table__.primary_key)))
    return _ready(model, values)


def _ready(model: type[Base], values: Sequence[rows.Row]) -> Ready:
    if not values:
        return Ready(model, ())
    pick, free = _columns(model)
    tuples: list[tuple[Any, ...]] = [pick(row) for row in values]
    for place in free:
        # Hardly ever true, so all texts of the column are looked at in one.
        if needs_escape("".join([one[place] or "" for one in tuples])):
            tuples = [(*one[:place], escaped(one[place]), *one[place + 1 :]) for one in tuples]
    return Ready(model, tuples)


def _write(connection: Connection, ready: Ready, otherwise: str = "", meanwhile: Callable[[], None] = lambda: None) -> None:
    if connection.dialect.name == "postgresql" and not otherwise and len(ready.tuples) >= _COPY_FROM_ROWS:
        _copy(connection, ready, meanwhile)
        return
    if ready.tuples:
        connection.exec_driver_sql(_statement(ready.model, connection.dialect) + otherwise, list(ready.tuples))
    meanwhile()


def _copy(connection: Connection, ready: Ready, meanwhile: Callable[[], None]) -> None:
    """PostgreSQL's way for many rows, several times as fast as statements; numbers go as they are and are not spelled."""
    dialect = connection.dialect
    quote = dialect.identifier_preparer.quote
    columns = list(ready.model.__table__.columns)
    names = ", ".join(quote(column.name) for column in columns)
    statement = f"COPY {quote(ready.model.__tablename__)} ({names}) FROM STDIN (FORMAT BINARY)"
    driver = connection.connection.driver_connection
    assert driver is not None
    errors = dialect.loaded_dbapi.Error
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_server_type(column) for column in columns])
            for one in ready.tuples:
                copy.write_row(one)
            meanwhile()
    except errors as error:
        # What SQLAlchemy does with the errors of its own statements.
        raise DBAPIError.instance(statement, None, error, errors, hide_parameters=True, dialect=dialect) from error


def _server_type(column: ColumnElement[Any]) -> str:
    """The name of a column's type, which the binary form of COPY must hit exactly: the server converts nothing."""
    kinds = {BigInteger: "int8", Boolean: "bool", Double: "float8", LargeBinary: "bytea", Text: "text", FreeText: "text"}
    return next(name for kind, name in kinds.items() if isinstance(column.type, kind))


@lru_cache(maxsize=64)
def _columns(model: type[Base]) -> tuple[Callable[[rows.Row], tuple[Any, ...]], tuple[int, ...]]:
    """What makes a row's tuple in the order of the columns, and the places of the free texts."""
    columns = list(model.__table__.columns)
    free = tuple(place for place, column in enumerate(columns) if isinstance(column.type, FreeText))
    return itemgetter(*(column.name for column in columns)), free


@lru_cache(maxsize=64)
def _statement(model: type[Base], dialect: Dialect) -> str:
    """The INSERT of a model."""
    columns = list(model.__table__.columns)
    quote = dialect.identifier_preparer.quote
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    names = ", ".join(quote(column.name) for column in columns)
    return f"INSERT INTO {quote(model.__tablename__)} ({names}) VALUES ({', '.join([mark] * len(columns))})"
