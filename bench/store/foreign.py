"""Rows of other tools as results of ours: what a source does not tell stays unknown, and nobody takes the row for one that we measured.

How they are kept apart. The workload has the tool's name before it (`liger:rope`), so a case of ours never has its key. The hard facts
begin with who measured, so no comparison mixes them with ours, nor those of two tools. There is neither check nor proof, and the method's
version is 0, which no way of measuring of ours has. `ok` says only that the source tells a time; without one the row is `invalid`, keeps
its other numbers, and says why.

How they are found again. The id of a row is a hash of what the source says in it, so a second import, or one of a file that has grown
since, adds only what is new. File, SHA-256 and place are kept in the run and in the row, with the source's own words.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from bench import records
from bench.records import (
    IMPORTED,
    NO_METHOD_OF_OURS,
    Case,
    Environment,
    Json,
    Measurement,
    Pass,
    Result,
    RevisionItem,
    Run,
    RunState,
    Scalar,
    Status,
    Trial,
)
from bench.store.intake import Intake, Refused
from bench.store.source import Source

UNKNOWN = "unknown"
MAX_ROWS = 100_000
MAX_NAME_CHARS = 500
"""Of what the tables are searched by."""

_AXES = frozenset(("workload", *records.FIXED_AXES))

CALL = Pass.FORWARD
"""What is timed where a tool knows no passes: a call as it is, to which `forward` adds nothing. The hard facts say that nobody told."""


@dataclass(frozen=True, slots=True)
class ForeignRow:
    """One row as a source tells it. Times are seconds, sizes bytes; None and UNKNOWN are what it does not tell."""

    place: str
    """Where in the file: `row 17`, `benchmarks[3]`."""
    said: Mapping[str, Json]
    """The source's own words, as they are kept in the row."""
    workload: str
    subject: Mapping[str, str]
    measurements: tuple[Measurement, ...]
    params: Mapping[str, Scalar] = field(default_factory=dict)
    pass_: Pass | None = None
    dtype: str = UNKNOWN
    device: str = UNKNOWN
    cache: str = UNKNOWN
    hard: Mapping[str, Scalar] = field(default_factory=dict)
    soft: Mapping[str, Scalar] = field(default_factory=dict)
    revision: tuple[RevisionItem, ...] = ()
    """What was under test."""
    beside: Mapping[str, Json] = field(default_factory=dict)
    """What the source says of all rows of this machine and revision; kept in the run. With `said` it identifies the row."""
    duration_s: float | None = None
    """How long it took to measure all of the row."""
    started_at: str | None = None
    """ISO 8601; without an offset where the source tells no time zone."""
    command: str | None = None
    failure: tuple[Status, str] | None = None
    """How it ended and why, where it has no numbers."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Whose file it is."""

    name: str
    """As in `--format`, and before the workload's name."""
    version: str | None
    question: str
    """What the file answers, for the run's line."""
    mapping_version: int = 1
    """Raised when an importer reads the same file in another way."""


def take_in(source: Source, intake: Intake, tool: Tool, rows: Sequence[ForeignRow]) -> None:
    """Hands `rows` to the intake, less those that are stored: a run for each machine and revision, since trials of one run are pooled.

    The file must have been read to its end. Raises StoreError for a file without rows, or with too many, and Refused for a row.
    """
    if not rows:
        source.refuse("the file holds no results", number=max(source.number, 1))
    if len(rows) > MAX_ROWS:
        source.refuse(f"the file holds more than {MAX_ROWS} results: split it")
    runs: dict[str, dict[str, ForeignRow]] = {}
    for row in rows:
        _demand_short_names(row)
        run_id = _id(
            "run",
            tool.name,
            source.sha256,
            records.canonical_json([dict(row.hard), [asdict(item) for item in row.revision], row.beside]),
        )
        runs.setdefault(run_id, {})[_id("result", tool.name, records.canonical_json([row.beside, row.said]))] = row
    known = intake.known([row_id for members in runs.values() for row_id in members])
    fresh = {run_id: {one: row for one, row in members.items() if one not in known} for run_id, members in runs.items()}
    intake.count_same(runs=sum(not members for members in fresh.values()), results=len(rows) - sum(map(len, fresh.values())))
    for run_id, members in fresh.items():
        if members:
            _hand_in(source, intake, tool, run_id, members)


def _hand_in(source: Source, intake: Intake, tool: Tool, run_id: str, members: Mapping[str, ForeignRow]) -> None:
    origin = {"format": tool.name, "file": source.path.name, "sha256": source.sha256, "mapping_version": tool.mapping_version}
    intake.run(_run(run_id, tool, origin, list(members.values())), f"the run of {source.path.name}")
    environments: dict[str, Environment] = {}
    cases: dict[str, Case] = {}
    trials: dict[str, int] = {}
    for position, (row_id, row) in enumerate(members.items()):
        case = _case(tool, row)
        key = case.key
        index = trials[key] = trials.get(key, -1) + 1
        trial = Trial(cases.setdefault(key, case), index, 0, position)
        intake.result(_result(row_id, run_id, tool, origin, row, trial, environments), row.place)


def _demand_short_names(row: ForeignRow) -> None:
    names = (
        row.workload,
        *row.subject,
        *row.subject.values(),
        *row.params,
        *(m.metric for m in row.measurements),
        *row.hard,
        *row.soft,
    )
    for name in names:
        if len(name) > MAX_NAME_CHARS:
            raise Refused(row.place, f"a name of {len(name)} characters, where {MAX_NAME_CHARS} are the most: {name[:40]!r}...")


def number(value: Json) -> float | None:
    """A finite number, from a number or its text; None for anything else, NaN and infinities included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def measured(
    metric: str, unit: str, samples: Sequence[float], *, calls: int = 1, note: str | None = None
) -> tuple[Measurement, ...]:
    """One measurement, or none where a number cannot be what it says (a negative time)."""
    try:
        return (Measurement(metric, unit, tuple(samples), calls_per_sample=calls, note=note),)
    except ValueError:
        return ()


def moment(value: Json) -> str | None:
    """A time as records hold it, in UTC where the source tells an offset; None where it cannot be read."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        if found is not None and found.tzinfo is not None:
            found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None if found is None else found.isoformat(timespec="seconds")


def scalar(value: Json) -> Scalar:
    """A parameter's value as a case can hold it: containers become JSON text, and whole numbers beyond 64 bits text."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def text(value: Json, otherwise: str = UNKNOWN) -> str:
    """A name: the text of a text or number, `otherwise` for nothing and for containers."""
    if isinstance(value, str):
        return value.strip() or otherwise
    return otherwise if value is None or isinstance(value, dict | list) else str(value)


def _run(run_id: str, tool: Tool, origin: Mapping[str, Json], rows: Sequence[ForeignRow]) -> Run:
    times = sorted(row.started_at for row in rows if row.started_at is not None)
    devices = sorted({row.device for row in rows})
    return Run(
        id=run_id,
        suite=f"imported:{tool.name}",
        suite_file=str(origin["file"]),
        suite_data={"name": f"imported:{tool.name}"},
        options={"source": {**origin, "said": dict(rows[0].beside)}},
        question=tool.question,
        seed=None,
        command=_command(None, str(origin["file"])),
        device=devices[0] if len(devices) == 1 else "several",
        started_at=times[0] if times else "",
        state=RunState.FINISHED,
        planned_trials=len(rows),
        revision=rows[0].revision,
        finished_at=times[-1] if times else None,
        reason=IMPORTED,
        harness_version=_written_by(tool),
    )


def _case(tool: Tool, row: ForeignRow) -> Case:
    return Case(
        workload=f"{tool.name}:{row.workload}",
        workload_version=tool.mapping_version,
        subject=row.subject,
        pass_=row.pass_ or CALL,
        dtype=row.dtype,
        device=row.device,
        cache=row.cache,
        timer=tool.name,
        params={(f"param_{name}" if name in _AXES else name): value for name, value in row.params.items()},
    )


def _result(
    row_id: str,
    run_id: str,
    tool: Tool,
    origin: Mapping[str, Json],
    row: ForeignRow,
    trial: Trial,
    environments: dict[str, Environment],
) -> Result:
    status, reason = row.failure or (Status.OK, None)
    if status is Status.OK and not any(m.metric == "time_s" for m in row.measurements):
        status, reason = Status.INVALID, "the source tells no time for it, and without a time nothing is ok here"
    not_told = ["seed", "checks", "proof", "clocks"]
    not_told += [
        name
        for name, told in (
            ("duration_s", row.duration_s is not None),
            ("pass", row.pass_ is not None),
            ("dtype", row.dtype != UNKNOWN),
            ("device", row.device != UNKNOWN),
            ("cache", row.cache != UNKNOWN),
            ("started_at", row.started_at is not None),
            ("command", row.command is not None),
        )
        if not told
    ]
    hard: dict[str, Scalar] = {"measured_by": tool.name, **row.hard}
    if row.pass_ is None:
        hard["pass"] = "not told"
    made = Environment(hard, row.soft)
    environment = environments.setdefault(records.fingerprint([hard, dict(row.soft)]), made)
    return Result(
        id=row_id,
        run_id=run_id,
        trial=trial,
        status=status,
        reason=reason,
        environment=environment,
        started_at=row.started_at or "",
        duration_s=row.duration_s,
        seed=None,
        command=_command(row.command, f"{origin['file']}, {row.place}"),
        measurements=row.measurements,
        conditions={"source": {**origin, "place": row.place, "not_told": not_told, "said": dict(row.said)}},
        method_version=NO_METHOD_OF_OURS,
        harness_version=_written_by(tool),
    )


def _command(told: str | None, place: str) -> str:
    return told or f"# the source does not tell how it was measured ({place})"


def _written_by(tool: Tool) -> str:
    return f"{tool.name} {tool.version or '(version not told)'}"


def _id(*parts: str) -> str:
    """A UUID of version 8 (the maker's own) from a hash, so that equal content has one id on every machine."""
    digest = int.from_bytes(hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).digest()[:16], "big")
    return str(uuid.UUID(int=digest & ~(0xF << 76) & ~(0b11 << 62) | 0x8 << 76 | 0b10 << 62))
