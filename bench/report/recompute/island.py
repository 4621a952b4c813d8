"""The data inside the page: every trial median as compact JSON, so that the numbers of the page can be computed again elsewhere.

Shape: `schema`, `generated_at`, `written_by`, `depth`; the lists `metrics`, `runs`, `environments`, `subjects`, `works`, `reasons`, `gpus`,
`conditions` and `checks`; and the tables `points`, `cases`, `trials`, `ranks` and `aside`, each `{"columns", "rows", "same"}`; `same` holds
the columns that have one value in all rows, and these are not in `columns`. A trial names its case, a case its run, point, subject and
work, and everything else that repeats, by position. `compared` says that its panel has a baseline, which is another subject, and
`baseline` is that one's case at this size, where there is one; `other` that it computes something else on purpose. Seconds, bytes and
cycles, to the last digit, so that every verdict follows from them; `at_s` is when a trial began, after its run; work is FLOPs, bytes and
tokens of one call. Absent numbers are null, never zero. Withheld times are absent here as well. `conditions` and `checks` are what
`evidence.py` repeats of a trial; `ranks` the medians of each rank of a trial; `aside` the rows that no value uses.
`bench.store.page_data` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from bench import __version__
from bench.judge.thresholds import RULES
from bench.metrics import METRICS as KNOWN
from bench.metrics import PEAK_CAUSES
from bench.records import Cost, Environment, Json, Result, Run, canonical_json, dump
from bench.report.numbers.by_rank import rank_medians
from bench.report.numbers.findings import FINDINGS, other_numbers
from bench.report.numbers.layout import sections
from bench.report.numbers.parts import PARTS
from bench.report.numbers.samples import taken
from bench.report.numbers.sharded import TOLD as TOLD_OF_SHARDED
from bench.report.numbers.sharded import shares_steps
from bench.report.numbers.summary import CYCLES, KERNELS, PEAK, PHASES, SAVED, TIME, TOTAL, CaseSummary, belongs_to_canary, gpu_of
from bench.report.numbers.units import shorten
from bench.report.recompute.evidence import told_checks, told_conditions, told_number
from bench.report.views.ranks import TOLD as RANK_METRICS
from bench.report.views.rows import Depth

ISLAND_SCHEMA = 3
RUN_FIELDS = (
    *("id", "suite", "suite_file", "suite_data", "question", "seed", "command", "device", "started_at", "state", "planned_trials"),
    *("revision", "label", "finished_at", "harness_version", "parent_run_id"),
)
TOLD_OPTIONS = ("profile", "sets", "filters", "shard", PARTS)
"""The options that say which cases were asked for, and of which runs one was joined."""
POINT_COLUMNS = ("workload", "workload_version", "pass", "dtype", "device", "cache", "timer", "world_size")
"""Before the parameters, which are `param.NAME`; a point without a parameter has null there, and its name in `lacks`."""
CASE_COLUMNS = ("run", "point", "subject", "arm", "status", "work", "compared", "baseline", "other", "proof", "command")
TRIAL_COLUMNS = (
    *("case", "result", "index", "attempt", "status", "reason", "samples", "environment", "method", "gpu", "busy_share", "at_s"),
    *("conditions", "checks"),
)
METRICS = (TIME, PEAK, SAVED, CYCLES)
WHERE_MEASURED = tuple(
    dict.fromkeys((TOTAL, *FINDINGS, *PHASES, *RULES, KERNELS, *(f"peak_{cause}_bytes" for cause, _ in PEAK_CAUSES)))
)
"""Further columns of the trials, each only where a case has it."""
WITH_FEW_CASES = tuple(name for name, metric in KNOWN.items() if not metric.harness)
"""The same of a page that tells each row in full."""
MOST_BUSY = 1e6
LONGEST_REASON = 4000


class _Numbered:
    """Values that repeat, each once, in the order of their first appearance."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.values: list[Json] = []

    def place(self, value: Json) -> int:
        """The position of the value, which is added where it is new."""
        place = self._places.setdefault(canonical_json(value), len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


def _table(columns: Sequence[str], rows: Sequence[Sequence[Json]]) -> Json:
    """What is the same in all rows is told once, and no column of no row. True and 1 are not the same."""
    if not rows:
        return {"columns": [], "rows": [], "same": {}}
    first = rows[0]
    varying = [
        place
        for place, value in enumerate(first)
        if any(row[place] != value or type(row[place]) is not type(value) for row in rows)
    ]
    return {
        "columns": [columns[place] for place in varying],
        "rows": [[row[place] for place in varying] for row in rows],
        "same": {column: first[place] for place, column in enumerate(columns) if place not in varying},
    }


def case_places(cases: Sequence[CaseSummary]) -> dict[tuple[str, str, str], int]:
    """Run, case key and arm to the position in the data."""
    return {(summary.run_id, summary.case.key, summary.arm): place for place, summary in enumerate(cases)}


def trial_places(cases: Sequence[CaseSummary]) -> dict[str, int]:
    """Result id to the position in the data."""
    return {result.id: place for place, result in enumerate(result for summary in cases for result in summary.counted)}


def command_of(case: CaseSummary) -> str | None:
    """The command that measures a case again; None where its rows name several."""
    found = {result.command for result in case.counted}
    return found.pop() if len(found) == 1 else None


def metrics_told(cases: Sequence[CaseSummary], *, full: bool) -> tuple[str, ...]:
    """The metrics of the data, in their order."""
    there = {name for case in cases for name in case.values}.difference(METRICS)
    more = WITH_FEW_CASES if full else TOLD_OF_SHARDED if shares_steps(cases) else ()
    return (*METRICS, *(name for name in dict.fromkeys((*WHERE_MEASURED, *more)) if name in there))


def _baselines(runs: Sequence[Run], cases: Sequence[CaseSummary]) -> dict[int, tuple[bool, int | None, bool]]:
    """By position of a case: whether its panel compares it with a baseline, the position of that, whether it computes something else."""
    places = {id(summary): place for place, summary in enumerate(cases)}
    found: dict[int, tuple[bool, int | None, bool]] = {}
    for run in runs:
        own = [summary for summary in cases if summary.run_id == run.id and not belongs_to_canary(run, summary.case)]
        for facet in (facet for section in sections(run, own) for facet in section.facets):
            others = other_numbers(facet)
            for (label, x), summary in facet.cells.items():
                compared = facet.baseline is not None and label != facet.baseline
                base = facet.cells.get((facet.baseline, x)) if compared and facet.baseline else None
                found[places[id(summary)]] = compared, None if base is None else places[id(base)], label in others
    return found


def _points(cases: Iterable[CaseSummary]) -> tuple[list[int], Json]:
    """The position of each case's point, and the table of points."""
    numbered = _Numbered()
    where = [numbered.place(summary.case.point_data()) for summary in cases]
    points = numbered.values
    names = sorted({name for point in points for name in point["params"]})
    rows = [
        [
            *(point[column] for column in POINT_COLUMNS),
            [name for name in names if name not in point["params"]],
            *(point["params"].get(name) for name in names),
        ]
        for point in points
    ]
    return where, _table((*POINT_COLUMNS, "lacks", *(f"param.{name}" for name in names)), rows)


def _run(run: Run) -> Json:
    data = dump(run)
    options = {name: data["options"][name] for name in TOLD_OPTIONS if name in data["options"]}
    return {**{name: data[name] for name in RUN_FIELDS}, "options": options}


def _after(started_at: str, run: Run) -> float | None:
    """Seconds, to the millisecond; None where one of the two is no time."""
    try:
        return round((datetime.fromisoformat(started_at) - datetime.fromisoformat(run.started_at)).total_seconds(), 3)
    except (TypeError, ValueError):
        return None


def _busy_share(result: Result) -> float | None:
    """How busy the machine was, where other processes were seen to be: on a CPU they widen what a verdict allows for."""
    share = result.conditions.get("machine_busy_share")
    if not isinstance(share, int | float) or isinstance(share, bool) or not result.conditions.get("busy_processes"):
        return None
    return float(share) if 0 <= share <= MOST_BUSY else None


def _environment(environment: Environment) -> Json:
    return {"hard": dict(environment.hard), "soft": dict(environment.soft)}


def _ranks(cases: Sequence[CaseSummary]) -> list[list[Json]]:
    places = trial_places(cases)
    return [
        [places[result.id], rank, *(told_number(own.get(name)) for name in RANK_METRICS)]
        for case in cases
        for result in case.counted
        for rank, own in rank_medians(case, result).items()
    ]


def _aside(cases: Sequence[CaseSummary]) -> list[list[Json]]:
    return [
        [place, result.trial.index, result.trial.attempt, shorten(why, LONGEST_REASON)]
        for place, case in enumerate(cases)
        for result, why in case.set_aside
    ]


def island(runs: Sequence[Run], cases: Sequence[CaseSummary], now: str, depth: Depth) -> Json:
    """The data island of a page of these runs and cases."""
    metrics = metrics_told(cases, full=depth.full)
    run_numbers = {run.id: number for number, run in enumerate(runs)}
    subjects, works, reasons, gpus, environments, conditions, checks = (_Numbered() for _ in range(7))
    environment_places: dict[int, int] = {}
    baselines = _baselines(runs, cases)
    points, point_table = _points(cases)
    case_rows: list[list[Json]] = []
    trial_rows: list[list[Json]] = []
    for position, summary in enumerate(cases):
        cost = next((result.cost for result in summary.counted if result.cost), Cost())
        compared, base, other = baselines.get(position, (False, None, False))
        case_rows.append(
            [run_numbers[summary.run_id], points[position], subjects.place(dict(summary.case.subject)), summary.arm, summary.outcome,
             works.place([cost.flops, cost.bytes, cost.tokens]), compared, base, other,
             summary.proof.verdict if summary.proof else None, command_of(summary)]
        )  # fmt: skip
        run = runs[run_numbers[summary.run_id]]
        for result in summary.counted:
            values = summary.trial_values.get(result.id, {})
            time = result.measurement(TIME) if TIME in values else None
            known = id(result.environment)
            if known not in environment_places:
                environment_places[known] = environments.place(_environment(result.environment))
            gpu = gpu_of(result)
            trial_rows.append(
                [position, result.id, result.trial.index, result.trial.attempt, str(result.status),
                 None if result.reason is None else reasons.place(shorten(result.reason, LONGEST_REASON)),
                 taken(time).count if time else None, environment_places[known], result.method_version,
                 None if gpu is None else gpus.place(gpu), _busy_share(result),
                 _after(result.started_at, run), conditions.place(told_conditions(result)),
                 None if (told := told_checks(result.checks)) is None else checks.place(told),
                 *(told_number(values.get(metric)) for metric in metrics)]
            )  # fmt: skip
    return {
        "schema": ISLAND_SCHEMA,
        "generated_at": now,
        "written_by": f"stepbench {__version__}",
        "depth": depth.name,
        "runs": [_run(run) for run in runs],
        "environments": environments.values,
        "subjects": subjects.values,
        "works": works.values,
        "reasons": reasons.values,
        "gpus": gpus.values,
        "conditions": conditions.values,
        "checks": checks.values,
        "metrics": metrics,
        "points": point_table,
        "cases": _table(CASE_COLUMNS, case_rows),
        "trials": _table((*TRIAL_COLUMNS, *metrics), trial_rows),
        "ranks": _table(("trial", "rank", *RANK_METRICS), _ranks(cases)),
        "aside": _table(("case", "index", "attempt", "why"), _aside(cases)),
    }


def as_element(data: Json, depth: Depth) -> str:
    """The element of the page that holds the data: as JSON to be read by anybody, packed where the page has to be small."""
    from bench.store.packed import packed
    from bench.store.page_data import BEGINNING, END, PACKED_BEGINNING

    # Not sorted: the order of a suite's axes says how a page is laid out.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return f"{BEGINNING}{_harmless(text)}{END}" if depth.full else f"{PACKED_BEGINNING}{packed(text)}{END}"


def _harmless(text: str) -> str:
    """JSON that cannot end the script element that holds it."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
