"""Reads the data inside a report page, which somebody may have mailed: within limits, nothing executed, nothing taken on trust.

`bench/report/recompute/island.py` writes it, and says there what stands where. A page of another program, of an older version, or with data
that do not fit together raises NoPage in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from bench.records import Case, Check, Cost, Environment, Json, Pass, Run, Scalar, Status, load
from bench.store.packed import unpacked
from bench.store.source import MAX_DEPTH, MAX_DOCUMENT_BYTES, deeper_than, parsed

SCHEMA = 3
BEGINNING, END = '<script type="application/json" id="data">', "</script>"
PACKED_BEGINNING = '<script type="application/zlib" id="data">'
"""Of data that `packed.py` made smaller."""
MAX_ROWS = 100_000
TOLERATED = "against the tolerance that the implementation declares"
"""What is known of the checks of a page of an older version, which tells no details of them."""
SET_ASIDE = "set aside"
_CASE_FIELDS = ("workload", "workload_version", "pass", "dtype", "device", "cache", "timer", "world_size")
_TRIAL_FIELDS = frozenset(
    (
        *(
            "case",
            "result",
            "index",
            "attempt",
            "status",
            "reason",
            "samples",
            "environment",
            "method",
            "gpu",
            "busy_share",
            "at_s",
        ),
        *("conditions", "checks"),
    )
)


class NoPage(ValueError):
    """A text that is no report page of ours, or one whose data cannot be read; says why."""


@dataclass(frozen=True, slots=True)
class PageChecks:
    """How many comparisons a trial had, and those that the page tells: all, or those nearest to their limit in older versions."""

    count: int
    tolerated: bool
    """Whether one was held against a tolerance that the implementation declares."""
    shown: tuple[Check, ...]

    @property
    def whole(self) -> bool:
        """Whether all of them are told."""
        return len(self.shown) == self.count


@dataclass(frozen=True, slots=True)
class PageTrial:
    """What a page tells of one trial. `medians`: metric to the median of its samples, in seconds, bytes, cycles or a ratio."""

    case: int
    result: str
    index: int
    attempt: int
    status: Status
    reason: str | None
    samples: int | None
    environment: int
    method_version: int
    gpu: str | None
    """The word for the physical GPU."""
    busy_share: float | None
    """How busy the machine was, where other processes were."""
    at_s: float | None
    """When it began, after its run did."""
    conditions: Mapping[str, Json]
    """What of them speaks for or against the trial."""
    checks: PageChecks | None
    medians: Mapping[str, float]
    by_rank: Mapping[int, Mapping[str, float]]
    """The same of each rank, where there were several."""


@dataclass(frozen=True, slots=True)
class PageAside:
    """A row that no value of its case uses."""

    case: int
    index: int
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class PageCase:
    """What a page tells of one case. Positions are those of the data."""

    run: int
    case: Case
    arm: str
    outcome: str
    """A status, or `set aside`."""
    cost: Cost | None
    compared: bool
    """Whether its panel has a baseline that is another subject."""
    baseline: int | None
    """The position of that baseline's case, where it has a row."""
    other: bool
    """Whether it computes something else on purpose."""
    proof: str | None
    command: str | None


@dataclass(frozen=True, slots=True)
class PageData:
    """All that a page tells as data."""

    generated_at: str
    written_by: str
    depth: str
    """How much the page tells of each row: `full`, `light` or `brief`."""
    runs: tuple[Run, ...]
    environments: tuple[Environment, ...]
    metrics: tuple[str, ...]
    cases: tuple[PageCase, ...]
    trials: tuple[PageTrial, ...]
    aside: tuple[PageAside, ...]


def page_text(path: Path) -> str:
    """The text of a page file. Raises NoPage for one that is too large or no text, OSError for one that cannot be read."""
    with path.open("rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise NoPage(f"the file holds more than {MAX_DOCUMENT_BYTES} bytes: no report of bench does")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoPage(f"no report page of bench: not valid UTF-8 ({error.reason})") from error


def data_text(page: str) -> str:
    """The JSON text inside a page. Raises NoPage where there is none, or several."""
    found = [(page.find(beginning), beginning) for beginning in (BEGINNING, PACKED_BEGINNING) if beginning in page]
    if not found:
        raise NoPage("no report page of bench: the data that such a page holds are not in it")
    start = found[0][0] + len(found[0][1])
    end = page.find(END, start)
    if end < 0 or len(found) > 1 or page.find(found[0][1], start) >= 0:
        raise NoPage("the data inside the page are cut off, or there twice")
    text = page[start:end]
    if found[0][1] == BEGINNING:
        return text
    try:
        return unpacked(text, MAX_DOCUMENT_BYTES)
    except ValueError as error:
        raise NoPage(f"the data inside the page {error}") from error


def read_page_data(page: str) -> PageData:
    """The data of a page. Raises NoPage."""
    try:
        data = parsed(data_text(page).encode("utf-8", "surrogatepass"), finite=True)
    except UnicodeEncodeError as error:
        raise NoPage(f"the data inside the page are no text ({error.reason})") from error
    except NoPage:
        raise
    except ValueError as error:
        raise NoPage(f"the data inside the page are {error}") from error
    if not isinstance(data, dict) or deeper_than(data, MAX_DEPTH):
        raise NoPage("the data inside the page are no object of this kind")
    if isinstance(data.get("schema"), int) and data["schema"] < SCHEMA:
        raise NoPage(f"the page was written by an older bench (data schema {data['schema']}, here {SCHEMA}): render it again")
    if data.get("schema") != SCHEMA:
        raise NoPage(f"data schema {data.get('schema')!r} is not known here ({SCHEMA} is): install a newer bench")
    try:
        return _read(data)
    except NoPage:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        told = " ".join(str(error).split())[:200]
        raise NoPage(f"the data inside the page do not fit together ({type(error).__name__}: {told})") from error


def _refuse(why: str) -> NoReturn:
    raise NoPage(f"the data inside the page do not fit together: {why}")


def _rows(table: Json, what: str) -> list[dict[str, Json]]:
    columns, rows, same = table["columns"], table["rows"], table["same"]
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        _refuse(f"more than {MAX_ROWS} {what}")
    if any(not isinstance(row, list) or len(row) != len(columns) for row in rows):
        _refuse(f"a row of {what} has more or fewer values than there are columns")
    return [{**same, **dict(zip(columns, row, strict=True))} for row in rows]


def _place(value: Json, of: Sequence[Any], what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(of):
        _refuse(f"{what} {value!r} is not there")
    return value


def _whole(value: Json, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        _refuse(f"{what} {value!r} is no number of anything")
    return value


def _optional(value: Json, read: Callable[[Json], Any]) -> Any:
    return None if value is None else read(value)


def _text(value: Json) -> str:
    if not isinstance(value, str):
        _refuse(f"{value!r} is no text")
    return value


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(f"{str(value)[:40]!r} is no number")
    return float(value)


def _scalars(data: Json) -> dict[str, Scalar]:
    if not isinstance(data, dict) or any(isinstance(value, dict | list) for value in data.values()):
        _refuse("facts that are no plain values")
    return data


def _read(data: Mapping[str, Json]) -> PageData:
    runs = tuple(load(Run, run) for run in data["runs"])
    environments = tuple(Environment(_scalars(one["hard"]), _scalars(one["soft"])) for one in data["environments"])
    metrics = tuple(_text(name) for name in data["metrics"])
    points = _rows(data["points"], "points")
    case_rows = _rows(data["cases"], "cases")
    cases = tuple(_case(data, row, runs, points, case_rows) for row in case_rows)
    trial_rows = _rows(data["trials"], "trials")
    ranks = _ranks(_rows(data["ranks"], "ranks"), trial_rows)
    checks = tuple(_checks(told) for told in data["checks"])
    conditions = tuple(_object(told) for told in data["conditions"])
    trials = tuple(
        _trial(data, row, cases, environments, metrics, conditions, checks, ranks.get(place, {}))
        for place, row in enumerate(trial_rows)
    )
    aside = tuple(
        PageAside(
            _place(row["case"], cases, "case"), _whole(row["index"], "index"), _whole(row["attempt"], "attempt"), _text(row["why"])
        )
        for row in _rows(data["aside"], "rows that are set aside")
    )
    return PageData(
        _text(data["generated_at"]),
        _text(data["written_by"]),
        _text(data["depth"]),
        runs,
        environments,
        metrics,
        cases,
        trials,
        aside,
    )


def _object(told: Json) -> Mapping[str, Json]:
    if not isinstance(told, dict):
        _refuse("conditions that are no names with values")
    return told


def _checks(told: Json) -> PageChecks:
    count, tolerated, *shown = told
    if not len(shown) <= _whole(count, "comparisons") <= MAX_ROWS or not isinstance(tolerated, bool):
        _refuse("checks that are none")
    checks = tuple(_check(*one) for one in shown)
    if tolerated and all(check.detail is None for check in checks):
        checks = tuple(replace(check, detail=TOLERATED) for check in checks)
    return PageChecks(count, tolerated, checks)


def _check(tensor: Json, at: Json, error: Json, plain_error: Json, limit: Json, passed: Json, detail: Json = None) -> Check:
    if not isinstance(passed, bool):
        _refuse(f"a check that {passed!r}")
    first, second, third = (_optional(value, _number) for value in (error, plain_error, limit))
    return Check(_text(tensor), _text(at), first, second, third, passed, _optional(detail, _text))


def _ranks(rows: Sequence[Mapping[str, Json]], trials: Sequence[Any]) -> dict[int, dict[int, dict[str, float]]]:
    """By trial and rank."""
    found: dict[int, dict[int, dict[str, float]]] = {}
    for row in rows:
        own = {_text(name): _number(value) for name, value in row.items() if name not in ("trial", "rank") and value is not None}
        found.setdefault(_place(row["trial"], trials, "trial"), {})[_whole(row["rank"], "rank")] = own
    return found


def _case(
    data: Mapping[str, Json],
    row: Mapping[str, Json],
    runs: Sequence[Run],
    points: Sequence[Mapping[str, Json]],
    cases: Sequence[Any],
) -> PageCase:
    point = points[_place(row["point"], points, "point")]
    params = {
        name.removeprefix("param."): value
        for name, value in point.items()
        if name.startswith("param.") and name.removeprefix("param.") not in point["lacks"]
    }
    subject = data["subjects"][_place(row["subject"], data["subjects"], "subject")]
    if not isinstance(subject, dict) or not all(isinstance(name, str) for name in subject.values()):
        _refuse("a subject that is no slots with their implementations")
    work = data["works"][_place(row["work"], data["works"], "work")]
    cost = Cost(*(_optional(value, lambda found: _whole(found, "work")) for value in work))
    fixed = {name: point[name] for name in _CASE_FIELDS}
    made = Case(
        workload=_text(fixed["workload"]),
        workload_version=_whole(fixed["workload_version"], "version"),
        subject=subject,
        pass_=Pass(fixed["pass"]),
        dtype=_text(fixed["dtype"]),
        device=_text(fixed["device"]),
        cache=_text(fixed["cache"]),
        timer=_text(fixed["timer"]),
        params=_scalars(params),
        world_size=_whole(fixed["world_size"], "world size"),
    )
    outcome = _text(row["status"])
    return PageCase(
        run=_place(row["run"], runs, "run"),
        case=made,
        arm=_text(row["arm"]),
        outcome=outcome if outcome == SET_ASIDE else str(Status(outcome)),
        cost=None if cost == Cost() else cost,
        compared=bool(row["compared"]),
        baseline=_optional(row["baseline"], lambda found: _place(found, cases, "case")),
        other=bool(row["other"]),
        proof=_optional(row["proof"], _text),
        command=_optional(row["command"], _text),
    )


def _trial(
    data: Mapping[str, Json],
    row: Mapping[str, Json],
    cases: Sequence[PageCase],
    environments: Sequence[Environment],
    metrics: Sequence[str],
    conditions: Sequence[Mapping[str, Json]],
    checks: Sequence[PageChecks],
    by_rank: Mapping[int, Mapping[str, float]],
) -> PageTrial:
    unknown = row.keys() - _TRIAL_FIELDS - set(metrics)
    if unknown:
        _refuse(f"the trials have a column {sorted(unknown)[0]!r} that is no metric")
    reason = _optional(row["reason"], lambda found: _text(data["reasons"][_place(found, data["reasons"], "reason")]))
    status = Status(row["status"])
    if (status is Status.OK) != (reason is None):
        _refuse("a status other than ok needs a reason, and ok has none")
    return PageTrial(
        case=_place(row["case"], cases, "case"),
        result=_text(row["result"]),
        index=_whole(row["index"], "index"),
        attempt=_whole(row["attempt"], "attempt"),
        status=status,
        reason=reason,
        samples=_optional(row["samples"], lambda found: _whole(found, "samples")),
        environment=_place(row["environment"], environments, "environment"),
        method_version=_whole(row["method"], "method version"),
        gpu=_optional(row["gpu"], lambda found: _text(data["gpus"][_place(found, data["gpus"], "GPU")])),
        busy_share=_optional(row["busy_share"], _number),
        at_s=_optional(row["at_s"], _number),
        conditions=conditions[_place(row["conditions"], conditions, "conditions")],
        checks=_optional(row["checks"], lambda found: checks[_place(found, checks, "checks")]),
        by_rank=by_rank,
        medians={name: _number(row[name]) for name in metrics if row[name] is not None},
    )
