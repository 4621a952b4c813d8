"""The tables, as typed models: portable types only, ids made by the client, one natural key for each thing.

How a result lies in the tables. A result is one row of `result`; what many results share is stored once and found by its
fingerprint: the case (`case_`, `subject`, `case_param`) and the environment (`environment`, `environment_item`). The numbers of
a result are rows of `measurement`, with statistics derived from the samples when the row is inserted, so that SQL can filter
without unpacking anything; the samples themselves are in `sample`. A measurement of a single number needs no row in `sample`:
the number is its own median, exactly.

Times are UTC in ISO 8601, enumerations are text with a CHECK, JSON is text. Nothing is NaN: a missing number is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.records import Pass, RunState, Status
from bench.store.column_types import FreeText, Number, Whole, Word


def _one_of(column: str, words: Iterable[str]) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


class Base(DeclarativeBase):
    """Common metadata. Every constraint has a name, because a later migration can only change what it can name."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {int: Whole(), str: Text(), float: Number(), bytes: LargeBinary()}  # noqa: RUF012 - SQLAlchemy's own declaration


class MetaRow(Base):
    """Facts about the database itself: `database_id`, `created_at`, `created_by`."""

    __tablename__ = "meta"

    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class RunRow(Base):
    """One invocation."""

    __tablename__ = "run"
    __table_args__ = (_one_of("state", RunState), Index(None, "started_at"), Index(None, "suite"))

    id: Mapped[str] = mapped_column(primary_key=True)
    suite: Mapped[str] = mapped_column(FreeText)
    suite_file: Mapped[str | None] = mapped_column(FreeText)
    suite_data: Mapped[str] = mapped_column(FreeText)
    """JSON that keeps the order of its keys, since a suite's axes are expanded in the order in which they were written."""
    options: Mapped[str] = mapped_column(FreeText)
    question: Mapped[str] = mapped_column(FreeText)
    seed: Mapped[int | None]
    command: Mapped[str] = mapped_column(FreeText)
    device: Mapped[str] = mapped_column(FreeText)
    started_at: Mapped[str]
    state: Mapped[str] = mapped_column(Word(RunState))
    planned_trials: Mapped[int]
    label: Mapped[str | None] = mapped_column(FreeText)
    finished_at: Mapped[str | None]
    reason: Mapped[str] = mapped_column(FreeText)
    harness_version: Mapped[str] = mapped_column(FreeText)
    parent_run_id: Mapped[str | None]
    """No foreign key: a run may be published without the run that it repeats."""


class RevisionItemRow(Base):
    """Version and commit of one thing under test in a run."""

    __tablename__ = "revision_item"

    run_id: Mapped[str] = mapped_column(ForeignKey("run.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(FreeText)
    kind: Mapped[str] = mapped_column(FreeText)
    version: Mapped[str | None] = mapped_column(FreeText)
    commit_hash: Mapped[str | None] = mapped_column(FreeText)
    dirty: Mapped[bool | None]
    diff_hash: Mapped[str | None] = mapped_column(FreeText)


class CaseRow(Base):
    """One cell of the matrix; `key` is `Case.key`, so databases that never met agree on it."""

    __tablename__ = "case_"
    __table_args__ = (_one_of("pass_", Pass), Index(None, "point_key"))

    key: Mapped[str] = mapped_column(primary_key=True)
    point_key: Mapped[str]
    workload: Mapped[str] = mapped_column(FreeText)
    workload_version: Mapped[int]
    pass_: Mapped[str] = mapped_column(Word(Pass))
    dtype: Mapped[str] = mapped_column(FreeText)
    device: Mapped[str] = mapped_column(FreeText)
    cache: Mapped[str] = mapped_column(FreeText)
    timer: Mapped[str] = mapped_column(FreeText)
    world_size: Mapped[int]


class SubjectRow(Base):
    """Which implementation fills a slot of a case."""

    __tablename__ = "subject"
    __table_args__ = ({"sqlite_with_rowid": False},)

    case_key: Mapped[str] = mapped_column(ForeignKey("case_.key"), primary_key=True)
    slot: Mapped[str] = mapped_column(FreeText, primary_key=True)
    implementation: Mapped[str] = mapped_column(FreeText)


class CaseParamRow(Base):
    """One parameter of a case: `value` as JSON, and `number` where it is one, for filters and pivots."""

    __tablename__ = "case_param"
    __table_args__ = ({"sqlite_with_rowid": False},)

    case_key: Mapped[str] = mapped_column(ForeignKey("case_.key"), primary_key=True)
    name: Mapped[str] = mapped_column(FreeText, primary_key=True)
    ordinal: Mapped[int]
    value: Mapped[str] = mapped_column(FreeText)
    number: Mapped[float | None]


class EnvironmentRow(Base):
    """Two sets of facts by their hashes; `id` is the fingerprint of both."""

    __tablename__ = "environment"
    __table_args__ = (UniqueConstraint("hard_hash", "soft_hash"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    hard_hash: Mapped[str]
    soft_hash: Mapped[str]


class EnvironmentItemRow(Base):
    """One fact of an environment, so that the difference of two is a query; `value` is JSON."""

    __tablename__ = "environment_item"
    __table_args__ = (_one_of("side", ("hard", "soft")), {"sqlite_with_rowid": False})

    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"), primary_key=True)
    side: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(FreeText, primary_key=True)
    value: Mapped[str] = mapped_column(FreeText)


class ResultRow(Base):
    """One trial and how it ended. Its natural key is (run, case, arm, index, attempt); `arm` is not NULL, since NULLs never collide."""

    __tablename__ = "result"
    __table_args__ = (
        UniqueConstraint("run_id", "case_key", "arm", "trial_index", "attempt"),
        _one_of("status", Status),
        CheckConstraint("(status = 'ok') = (reason IS NULL OR reason = '')", name="reason_unless_ok"),
        Index(None, "case_key"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("run.id"))
    case_key: Mapped[str] = mapped_column(ForeignKey("case_.key"))
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    arm: Mapped[str] = mapped_column(FreeText)
    trial_index: Mapped[int]
    attempt: Mapped[int]
    pair_index: Mapped[int | None]
    block: Mapped[int]
    position: Mapped[int]
    status: Mapped[str] = mapped_column(Word(Status))
    reason: Mapped[str | None] = mapped_column(FreeText)
    error_type: Mapped[str | None] = mapped_column(FreeText)
    phase: Mapped[str | None] = mapped_column(FreeText)
    rank: Mapped[int | None]
    started_at: Mapped[str]
    duration_s: Mapped[float | None]
    seed: Mapped[int | None]
    method_version: Mapped[int]
    harness_version: Mapped[str] = mapped_column(FreeText)
    excluded_reason: Mapped[str | None] = mapped_column(FreeText)
    has_cost: Mapped[bool]
    cost_flops: Mapped[int | None]
    cost_bytes: Mapped[int | None]
    cost_tokens: Mapped[int | None]
    proof_verdict: Mapped[str | None] = mapped_column(FreeText)
    proof_observed: Mapped[str | None] = mapped_column(FreeText)
    """JSON list of what was seen to run."""
    proof_detail: Mapped[str | None] = mapped_column(FreeText)
    command: Mapped[str] = mapped_column(FreeText)
    conditions: Mapped[str] = mapped_column(FreeText)
    """JSON."""


class MeasurementRow(Base):
    """One metric of one trial. `n` to `p95` are derived from the samples at insertion; NULL where a number would overflow."""

    __tablename__ = "measurement"
    __table_args__ = ({"sqlite_with_rowid": False},)

    result_id: Mapped[str] = mapped_column(ForeignKey("result.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(FreeText, primary_key=True)
    scope: Mapped[str] = mapped_column(FreeText, primary_key=True)
    ordinal: Mapped[int]
    unit: Mapped[str] = mapped_column(FreeText)
    calls_per_sample: Mapped[int]
    note: Mapped[str | None] = mapped_column(FreeText)
    n: Mapped[int]
    median: Mapped[float | None]
    mean: Mapped[float | None]
    p05: Mapped[float | None]
    p95: Mapped[float | None]


class SampleRow(Base):
    """The raw numbers of a measurement with n > 1, in order: little-endian float64, compressed by zlib unless they are few."""

    __tablename__ = "sample"

    result_id: Mapped[str] = mapped_column(ForeignKey("result.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(FreeText, primary_key=True)
    scope: Mapped[str] = mapped_column(FreeText, primary_key=True)
    encoding: Mapped[str]
    n: Mapped[int]
    data: Mapped[bytes]


class CheckRow(Base):
    """One comparison with the reference. `error_limit` is the record's `limit`, which SQL reserves."""

    __tablename__ = "check_"
    __table_args__ = ({"sqlite_with_rowid": False},)

    result_id: Mapped[str] = mapped_column(ForeignKey("result.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tensor: Mapped[str] = mapped_column(FreeText)
    at: Mapped[str] = mapped_column(FreeText)
    error: Mapped[float | None]
    plain_error: Mapped[float | None]
    error_limit: Mapped[float | None]
    passed: Mapped[bool]
    detail: Mapped[str | None] = mapped_column(FreeText)


class LogRow(Base):
    """What a trial wrote to stdout and stderr: UTF-8, compressed by zlib. No row where it wrote nothing."""

    __tablename__ = "log"

    result_id: Mapped[str] = mapped_column(ForeignKey("result.id"), primary_key=True)
    encoding: Mapped[str]
    data: Mapped[bytes]


class ThinnedRow(Base):
    """When `bench db gc` took away the samples and the log of a result; NULL for what is still there. Medians stay for ever."""

    __tablename__ = "thinned"
    __table_args__ = ({"sqlite_with_rowid": False},)

    result_id: Mapped[str] = mapped_column(ForeignKey("result.id"), primary_key=True)
    samples_at: Mapped[str | None]
    log_at: Mapped[str | None]


class PinRow(Base):
    """A run that `bench db gc` leaves whole, and why: once for each reason."""

    __tablename__ = "pin"
    __table_args__ = ({"sqlite_with_rowid": False},)

    run_id: Mapped[str] = mapped_column(ForeignKey("run.id"), primary_key=True)
    reason: Mapped[str] = mapped_column(FreeText, primary_key=True)
    pinned_at: Mapped[str]


class BaselineRow(Base):
    """What a name of a baseline meant from a moment on: `run_id` is NULL where it was taken away. The latest row of a name holds."""

    __tablename__ = "baseline"
    __table_args__ = ({"sqlite_with_rowid": False},)

    name: Mapped[str] = mapped_column(FreeText, primary_key=True)
    set_at: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str | None] = mapped_column(ForeignKey("run.id"))
    author: Mapped[str] = mapped_column(FreeText)
    reason: Mapped[str] = mapped_column(FreeText)
    expires_at: Mapped[str | None]


class AcceptanceRow(Base):
    """A change of one series that somebody accepts until a day; `ratio` is NULL for a change of status."""

    __tablename__ = "acceptance"
    __table_args__ = (Index(None, "series_key"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    series_key: Mapped[str]
    word: Mapped[str]
    ratio: Mapped[float | None]
    author: Mapped[str] = mapped_column(FreeText)
    reason: Mapped[str] = mapped_column(FreeText)
    accepted_at: Mapped[str]
    expires_at: Mapped[str]
