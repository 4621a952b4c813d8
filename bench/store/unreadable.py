"""Which rows do not read, and why: every value of the database is decoded as commands decode it, a row at a time.

Columns of SQLite hold any value, and a file may be edited or damaged. A command stops at the first value that makes no sense (Unreadable)
and does not know whose it is; it is looked for here, so that the message names the row. `bench db check` lists all of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, false, func, or_, select, type_coerce
from sqlalchemy.types import BigInteger, Boolean, Double, LargeBinary, NullType

from bench.errors import StoreError
from bench.records import Case, Environment, Measurement, Pass
from bench.store import queries, rows
from bench.store.blobs import unpack_log
from bench.store.column_types import Word
from bench.store.failures import Unreadable, undecodable
from bench.store.location import Location
from bench.store.models import (
    AcceptanceRow,
    Base,
    BaselineRow,
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

_OWNERS: Mapping[type[Base], tuple[str, Any]] = {
    RunRow: ("run", RunRow.id),
    RevisionItemRow: ("run", RevisionItemRow.run_id),
    CaseRow: ("case", CaseRow.key),
    SubjectRow: ("case", SubjectRow.case_key),
    CaseParamRow: ("case", CaseParamRow.case_key),
    EnvironmentRow: ("environment", EnvironmentRow.id),
    EnvironmentItemRow: ("environment", EnvironmentItemRow.environment_id),
    ResultRow: ("result", ResultRow.id),
    MeasurementRow: ("result", MeasurementRow.result_id),
    SampleRow: ("result", SampleRow.result_id),
    CheckRow: ("result", CheckRow.result_id),
    LogRow: ("result", LogRow.result_id),
    ThinnedRow: ("result", ThinnedRow.result_id),
    PinRow: ("run", PinRow.run_id),
    BaselineRow: ("baseline", BaselineRow.name),
    AcceptanceRow: ("acceptance", AcceptanceRow.id),
}
"""Of each table, what its rows belong to, and the column that says to which."""

_TYPES: tuple[tuple[type[Any], tuple[str, ...], type | tuple[type, ...], str], ...] = (
    (BigInteger, ("integer",), int, "whole number"),
    (Boolean, ("integer",), int, "yes or no"),
    (Double, ("real",), (float, int), "number"),
    (LargeBinary, ("blob",), bytes, "bytes"),
)
"""Of a column's type, what SQLite calls its values, what Python does, and what we do; all others are texts."""
_TEXT = ("text",), str, "text"

_NO_CASE = Case("", 0, {}, Pass.FORWARD, "", "", "", "", {})
_NO_ENVIRONMENT = Environment({}, {})


@dataclass(frozen=True, slots=True)
class Found:
    """Something that does not read."""

    kind: str
    """`run`, `case`, `environment`, `result`, `baseline` or `acceptance`."""
    id: str
    why: str

    def __str__(self) -> str:
        said = f"{self.kind} {self.id} does not read: {self.why}"
        return said.encode(errors="backslashreplace").decode()


@contextmanager
def named(connection: Connection, location: Location) -> Iterator[None]:
    """Turns Unreadable into StoreError with the row's name and what to do; lets it through where every row reads."""
    try:
        yield
    except Exception as error:
        if not _may_be_damage(error):
            raise
        found = all_unreadable(connection)
        aside = excluded(connection, found)
        # What is excluded is left out wherever it can be, so another one stopped us, if there is one.
        first = next((one for one in found if one.id not in aside), next(iter(found), None))
        if first is None:
            raise
        raise StoreError(
            f"database {location.shown}: {first}. {_way_out(first, aside)}. `bench db check` lists all that is wrong"
        ) from error


def _way_out(found: Found, aside: frozenset[str]) -> str:
    if found.kind == "result" and found.id not in aside:
        return f'`bench db exclude {found.id} --reason "does not read"` keeps it out of all that is read'
    reads = "a run that has no part in it" if found.kind != "result" else "all but this row, which is excluded"
    return f"Keep a copy: `bench db export RUN -o FILE` writes {reads}, and `bench db import` reads that into a new database"


def all_unreadable(connection: Connection) -> list[Found]:
    """`unreadable`, in a file with texts that are not UTF-8 too."""
    try:
        return list(unreadable(connection))
    except Exception as error:
        if not undecodable(error):
            raise
    with all_text(connection):
        return list(unreadable(connection, broken_text=True))


def excluded(connection: Connection, found: Sequence[Found]) -> frozenset[str]:
    """Ids of the excluded results that do not read, or whose case or environment does not."""
    kinds = {"result": ResultRow.id, "case": ResultRow.case_key, "environment": ResultRow.environment_id}
    wanted = [(column, [one.id for one in found if one.kind == kind and _is_unicode(one.id)]) for kind, column in kinds.items()]
    return frozenset(
        one
        for column, ids in wanted
        for chunk in queries.chunks(ids)
        for one in connection.execute(
            select(ResultRow.id).where(ResultRow.excluded_reason.is_not(None), column.in_(chunk))
        ).scalars()
    )


def aside(connection: Connection, error: BaseException) -> frozenset[str]:
    """Ids of the results that may be left out after `error`, since they are excluded; none where it has another cause."""
    return excluded(connection, all_unreadable(connection)) if _may_be_damage(error) else frozenset()


def _may_be_damage(error: BaseException) -> bool:
    return isinstance(error, Unreadable | json.JSONDecodeError) or undecodable(error)


def unreadable(connection: Connection, *, measured: bool = True, broken_text: bool = False) -> Iterator[Found]:
    """All that does not read, each thing once, with the first reason.

    Without `measured` samples are not decoded. `broken_text`: texts are looked at one by one, which needs `all_text`.
    """
    told: set[tuple[str, str]] = set()
    searches: list[Iterator[Found]] = [
        _values(connection, every=broken_text),
        *(_decoded(connection, model, decode) for model, decode in _DECODED),
        _lost(connection),
        _units(connection),
    ]
    if measured:
        searches.append(Found("result", row.result_id, read) for row, read in measurements(connection) if isinstance(read, str))
    for search in searches:
        for one in search:
            if (one.kind, one.id) not in told:
                told.add((one.kind, one.id))
                yield one


@contextmanager
def all_text(connection: Connection) -> Iterator[None]:
    """While it lasts SQLite gives texts that are not UTF-8 as well: their wrong bytes are surrogates."""
    driver = connection.connection.driver_connection if connection.dialect.name == "sqlite" else None
    if driver is None:
        yield
        return
    before = driver.text_factory
    driver.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before


def measurements(connection: Connection) -> Iterator[tuple[Any, Measurement | str]]:
    """Rows of `measurement` with more than one sample, or with one that is no measurement; and what they say, or why they do not read.

    A row has the columns `encoding`, `data` and `samples_at` too.
    """
    m, s, t = MeasurementRow, SampleRow, ThinnedRow
    same = and_(s.result_id == m.result_id, s.metric == m.metric, s.scope == m.scope)
    statement = select(*map(_raw, m.__table__.columns), _raw(s.encoding), _raw(s.data), _raw(t.samples_at)).select_from(m)
    statement = statement.outerjoin(s, same).outerjoin(t, t.result_id == m.result_id).order_by(m.result_id)
    for row in _streamed(connection, statement.where(or_(m.n != 1, m.median.is_(None), m.median < 0))):
        try:
            yield row, queries.measurement(row, None if row.data is None else row, row)
        except (ValueError, TypeError) as error:
            yield row, str(error) if row.metric in str(error) else f"{row.metric}: {error}"


# --- searches --------------------------------------------------------------------------------------------------------------------


def _values(connection: Connection, *, every: bool) -> Iterator[Found]:
    """Values that are not of their column's type, words that are none, infinite numbers; with `every` texts that are not UTF-8."""
    for model, (kind, owner) in _OWNERS.items():
        columns = list(model.__table__.columns)
        strange = [_strange(column, connection.dialect.name) for column in columns]
        statement = select(_raw(owner).label("owner_"), *map(_raw, columns))
        for row in _streamed(connection, statement if every else statement.where(or_(*strange))):
            for column, value in zip(columns, row[1:], strict=True):
                if (what := _wrong(column, value)) is not None:
                    yield Found(kind, str(row[0]), f"{model.__tablename__}.{column.name} is {repr(value)[:60]}, no {what}")
                    break


def _strange(column: ColumnElement[Any], dialect: str) -> ColumnElement[bool]:
    """Over a row: whether `_wrong` would say something of the column, but for what a text is made of."""
    conditions: list[ColumnElement[bool]] = []
    if isinstance(column.type, Double):
        # In SQLite texts and bytes are larger than any number.
        conditions.append(or_(column > sys.float_info.max, column < -sys.float_info.max))
    elif dialect == "sqlite":
        conditions.append(func.typeof(column).not_in((*_expected(column)[0], "null")))
    if isinstance(column.type, Word):
        conditions.append(column.not_in(column.type.known))
    return or_(*conditions, false())


def _wrong(column: ColumnElement[Any], value: Any) -> str | None:
    """What the value should be and is not."""
    _, kind, what = _expected(column)
    if value is None:
        return None
    if not isinstance(value, kind):
        return what
    if isinstance(column.type, Word) and value not in column.type.known:
        return column.type.words.__name__
    if isinstance(value, float) and not abs(value) <= sys.float_info.max:
        return "finite number"
    if isinstance(value, str) and not value.isascii() and not _is_unicode(value):
        return "text in UTF-8"
    return None


def _expected(column: ColumnElement[Any]) -> tuple[tuple[str, ...], type | tuple[type, ...], str]:
    return next((tuple_[1:] for tuple_ in _TYPES if isinstance(column.type, tuple_[0])), _TEXT)


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(connection: Connection, model: type[Base], decode: Callable[[Any], object]) -> Iterator[Found]:
    """Rows of a table out of which no record can be made."""
    kind, owner = _OWNERS[model]
    for row in _streamed(connection, select(_raw(owner).label("owner_"), *map(_raw, model.__table__.columns))):
        try:
            decode(row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            yield Found(kind, str(row.owner_), str(error))


_DECODED: tuple[tuple[type[Base], Callable[[Any], object]], ...] = (
    (RunRow, lambda row: rows.run_record(row, ())),
    (CaseParamRow, lambda row: rows.fact(row.name, row.value)),
    (EnvironmentItemRow, lambda row: rows.environment_record([row])),
    (ResultRow, lambda row: rows.result_record(row, _NO_CASE, _NO_ENVIRONMENT, (), (), "")),
    (LogRow, lambda row: unpack_log(row.encoding, row.data)),
)


def _lost(connection: Connection) -> Iterator[Found]:
    """Cases and environments that results name and nobody has."""
    for kind, named_by, key in (
        ("case", ResultRow.case_key, CaseRow.key),
        ("environment", ResultRow.environment_id, EnvironmentRow.id),
    ):
        for one in connection.execute(select(named_by).where(~exists().where(key == named_by)).distinct()).scalars():
            yield Found(kind, str(one), "results name it, and it is not there")


def _units(connection: Connection) -> Iterator[Found]:
    """Results with a metric of ours in a unit that is not the metric's."""
    m = MeasurementRow
    for metric, unit in connection.execute(select(_raw(m.metric), _raw(m.unit)).distinct()).all():
        try:
            rows.known_unit(metric, unit)
        except (ValueError, TypeError) as error:
            for one in connection.execute(select(m.result_id).where(m.metric == metric, _raw(m.unit) == unit)).scalars():
                yield Found("result", one, str(error))


def _raw(column: Any) -> Any:
    """A column as the driver gives it, whatever it holds."""
    return type_coerce(column, NullType()).label(column.name)


def _streamed(connection: Connection, statement: Any) -> Iterator[Any]:
    yield from connection.execute(statement.execution_options(yield_per=1000))
