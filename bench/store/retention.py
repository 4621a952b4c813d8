"""What grows old: raw samples and logs are dropped after some days, while rows, medians, evidence and reasons stay for ever.

Statistics derive from samples, so dropping them loses something: a trial keeps n, median, mean, 5th and 95th percentile of each metric,
and loses its histogram, its order in time and every other quantile. Judgements compare medians of trials, so none of them changes.

Left whole: pinned runs (published ones, baselines, what somebody pinned), runs in progress, and rows whose age nobody told. Excluded rows
grow old as others do. The work goes in short transactions, so that a run may be measured meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, select, text, update

from bench.errors import StoreError
from bench.records import RunState
from bench.store.models import LogRow, MeasurementRow, PinRow, ResultRow, RunRow, SampleRow, ThinnedRow
from bench.store.writes import insert_missing

if TYPE_CHECKING:
    from bench.store.database import Store

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Retention:
    """Days, counted from the start of a run, for which something is kept."""

    samples_days: float = 90.0
    logs_days: float = 90.0


@dataclass(frozen=True, slots=True)
class Collected:
    """What was dropped, or would be."""

    results: int
    """Results that lose something."""
    samples: int
    """Measurements that lose their samples."""
    sample_bytes: int
    logs: int
    log_bytes: int
    pinned_runs: int
    """Runs that are old enough and were left whole because they are pinned."""
    size_before: int
    """Bytes of the database."""
    size_after: int | None
    """None after a dry run."""
    notices: tuple[str, ...] = ()


def collect(store: Store, retention: Retention, *, now: str, dry_run: bool) -> Collected:
    """Drops what is older than `retention` allows; with `dry_run` only counts it. `now` is UTC in ISO 8601. Raises StoreError."""
    old_samples = _old(now, retention.samples_days)
    old_logs = _old(now, retention.logs_days)
    wanted = (
        (SampleRow, old_samples & ~exists().where(_overflowed()), "samples_at"),
        (LogRow, old_logs, "log_at"),
    )
    with store.reading() as connection:
        before = _size_bytes(connection)
        counts = [_counted(connection, model, _untouched(condition)) for model, condition, _ in wanted]
        either = exists().where(_of_result(SampleRow)) & wanted[0][1] | exists().where(_of_result(LogRow)) & old_logs
        results = _number_of(connection, select(func.count()).select_from(ResultRow).join(RunRow).where(_untouched(either)))
        pinned = _number_of(
            connection, select(func.count()).select_from(RunRow).where(RunRow.id.in_(_pinned()), old_samples | old_logs)
        )
    dropped = (results, *counts[0], *counts[1], pinned, before)
    if dry_run:
        return Collected(*dropped, size_after=None)
    for model, condition, column in wanted:
        _drop(store, model, _untouched(condition), column, now)
    notices = store.compact()
    with store.reading() as connection:
        return Collected(*dropped, size_after=_size_bytes(connection), notices=notices)


def _old(now: str, days: float) -> ColumnElement[bool]:
    try:
        cutoff = (datetime.fromisoformat(now) - timedelta(days=days)).isoformat(timespec="seconds")
    except OverflowError:
        raise StoreError(f"{days:g} days before {now} is no date: give fewer days") from None
    # Times are text of one form, so they compare as text; what has no time has no age.
    return (RunRow.started_at != "") & (RunRow.started_at < cutoff) & (RunRow.state != RunState.RUNNING.value)


def _pinned() -> Any:
    return select(PinRow.run_id)


def _untouched(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return condition & RunRow.id.not_in(_pinned())


def _of_result(model: Any) -> ColumnElement[bool]:
    own: ColumnElement[bool] = model.result_id == ResultRow.id
    return own


def _overflowed() -> ColumnElement[bool]:
    """A metric of the result whose median fits in no number, so that its samples are all there is."""
    return (MeasurementRow.result_id == ResultRow.id) & (MeasurementRow.n > 1) & MeasurementRow.median.is_(None)


def _counted(connection: Connection, model: Any, condition: ColumnElement[bool]) -> tuple[int, int]:
    rows = select(func.count(), func.coalesce(func.sum(func.length(model.data)), 0)).select_from(model)
    row = connection.execute(
        rows.join(ResultRow, _of_result(model)).join(RunRow, RunRow.id == ResultRow.run_id).where(condition)
    ).one()
    return int(row[0]), int(row[1])


def _number_of(connection: Connection, statement: Any) -> int:
    return int(connection.execute(statement).scalar_one())


def _drop(store: Store, model: Any, condition: ColumnElement[bool], column: str, at: str) -> None:
    found = select(ResultRow.id).join(RunRow, RunRow.id == ResultRow.run_id).where(exists().where(_of_result(model)), condition)
    while True:
        with store.writing() as connection:
            ids: Sequence[str] = connection.execute(found.limit(_AT_ONCE)).scalars().all()
            if not ids:
                return
            insert_missing(connection, ThinnedRow, [{"result_id": one, "samples_at": None, "log_at": None} for one in ids])
            connection.execute(update(ThinnedRow).where(ThinnedRow.result_id.in_(ids)).values({column: at}))
            connection.execute(delete(model).where(model.result_id.in_(ids)))


def _size_bytes(connection: Connection) -> int:
    if connection.dialect.name == "postgresql":
        return _number_of(connection, text("SELECT pg_database_size(current_database())"))
    pages = _number_of(connection, text("PRAGMA page_count"))
    return pages * _number_of(connection, text("PRAGMA page_size"))
