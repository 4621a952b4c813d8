"""Rows into the tables, inside a transaction that the caller opened. What many results share is inserted once."""

from __future__ import annotations

from collections.abc import Sequence, Set

from sqlalchemy import Connection, insert, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from bench.records import Case, Environment, Result, Run, RunState
from bench.store import rows
from bench.store.models import (
    Base,
    CaseParamRow,
    CaseRow,
    CheckRow,
    EnvironmentItemRow,
    EnvironmentRow,
    LogRow,
    MeasurementRow,
    ResultRow,
    RevisionItemRow,
    RunRow,
    SampleRow,
    SubjectRow,
)


def insert_run(connection: Connection, run: Run) -> None:
    """Raises ValueError where the id is taken."""
    if connection.execute(select(RunRow.id).where(RunRow.id == run.id)).first() is not None:
        raise ValueError(f"run {run.id} is stored already")
    _insert(connection, RunRow, [rows.run_row(run)])
    _insert(connection, RevisionItemRow, rows.revision_rows(run))


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


def insert_results(connection: Connection, results: Sequence[Result], known: Set[str]) -> set[str]:
    """Inserts results whose trials have no row yet, with what they share.

    `known` holds keys of cases and environments that are stored for sure. Returns those that are stored when the transaction commits.
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

    _insert_missing(connection, CaseRow, [rows.case_row(case, key) for key, case in cases.items()])
    _insert_missing(connection, SubjectRow, [row for key, case in cases.items() for row in rows.subject_rows(case, key)])
    _insert_missing(connection, CaseParamRow, [row for key, case in cases.items() for row in rows.param_rows(case, key)])
    _insert_missing(connection, EnvironmentRow, environment_rows)
    items = [row for key, environment in environments.items() for row in rows.environment_item_rows(environment, key)]
    _insert_missing(connection, EnvironmentItemRow, items)

    _insert(connection, ResultRow, result_rows)
    measured = [(result.id, ordinal, m) for result in results for ordinal, m in enumerate(result.measurements)]
    _insert(connection, MeasurementRow, [rows.measurement_row(*one) for one in measured])
    _insert(connection, SampleRow, [rows.sample_row(owner, m) for owner, _, m in measured if len(m.samples) > 1])
    _insert(
        connection, CheckRow, [rows.check_row(result.id, n, check) for result in results for n, check in enumerate(result.checks)]
    )
    _insert(connection, LogRow, [rows.log_row(result.id, result.log) for result in results if result.log])
    return {*cases, *environments}


def lock_for_ingest(connection: Connection) -> None:
    """Keeps other writers of runs and results out until the transaction ends. SQLite has done so when it began."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE run, result IN SHARE ROW EXCLUSIVE MODE"))


def finish_run(connection: Connection, run_id: str, state: RunState, finished_at: str | None) -> bool:
    """False where there is no such run."""
    changed = connection.execute(update(RunRow).where(RunRow.id == run_id).values(state=state.value, finished_at=finished_at))
    return changed.rowcount > 0


def exclude(connection: Connection, result_id: str, reason: str) -> bool:
    """False where there is no such result. The first reason stays."""
    if connection.execute(select(ResultRow.id).where(ResultRow.id == result_id)).first() is None:
        return False
    standing = (ResultRow.id == result_id) & ResultRow.excluded_reason.is_(None)
    connection.execute(update(ResultRow).where(standing).values(excluded_reason=reason))
    return True


def _insert(connection: Connection, model: type[Base], values: list[rows.Row]) -> None:
    if values:
        connection.execute(insert(model), values)


def _insert_missing(connection: Connection, model: type[Base], values: list[rows.Row]) -> None:
    """Skips rows whose key is stored already: another process may have been faster."""
    if not values:
        return
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    # In one order everywhere, so that two transactions never wait for each other.
    columns = [column.name for column in model.__table__.primary_key]
    values.sort(key=lambda row: tuple(row[name] for name in columns))
    connection.execute(dialect.insert(model).on_conflict_do_nothing(), values)
