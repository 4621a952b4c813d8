"""The data inside the page: every trial median as compact JSON, so that a reader can take the numbers and check them.

Shape: `{"schema", "generated_at", "runs": [...]}` and the tables `points`, `cases` and `trials`, each `{"columns", "rows"}`. A trial
names its case, a case its point and its run, by position. Seconds, bytes and cycles, to ten significant digits; with the work of one
call of a case in FLOPs, bytes and tokens every rate can be computed again. Absent numbers are null, never zero. Withheld times are absent
here as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from bench.records import Cost, Json, Run, canonical_json
from bench.report.findings import FINDINGS
from bench.report.summary import CYCLES, PEAK, PHASES, SAVED, TIME, TOTAL, CaseSummary

ISLAND_SCHEMA = 1
POINT_COLUMNS = ("workload", "pass", "dtype", "device", "cache", "timer", "world_size", "params")
CASE_COLUMNS = ("run", "key", "subject", "point", "arm", "status", "flops", "bytes", "tokens")
TRIAL_COLUMNS = ("case", "result", "index", "attempt", "status", "samples")
METRICS = (TIME, PEAK, SAVED, CYCLES)
WHERE_MEASURED = (TOTAL, *FINDINGS, *PHASES)
"""Further columns of the trials, each only where a case has it."""


def _ten_digits(value: float | None) -> float | None:
    """Absent where it is no number that JSON knows: rounding may leave the range of a float."""
    rounded = None if value is None else float(f"{value:.10g}")
    return rounded if rounded is not None and math.isfinite(rounded) else None


def island(runs: Sequence[Run], cases: Sequence[CaseSummary], now: str) -> Json:
    """The data island of these runs and cases."""
    there = {name for case in cases for name in case.values}
    metrics = (*METRICS, *(name for name in WHERE_MEASURED if name in there))
    run_numbers = {run.id: number for number, run in enumerate(runs)}
    points: dict[str, int] = {}
    case_rows: list[Json] = []
    trial_rows: list[Json] = []
    for position, summary in enumerate(cases):
        case = summary.case
        point = canonical_json(
            [case.workload, str(case.pass_), case.dtype, case.device, case.cache, case.timer, case.world_size, dict(case.params)]
        )
        where = points.setdefault(point, len(points))
        cost = next((result.cost for result in summary.counted if result.cost), Cost())
        case_rows.append(
            [run_numbers[summary.run_id], case.key[:12], dict(case.subject), where, summary.arm, summary.outcome,
             cost.flops, cost.bytes, cost.tokens]
        )  # fmt: skip
        for result in summary.counted:
            values = summary.trial_values.get(result.id, {})
            time = result.measurement(TIME) if TIME in values else None
            trial_rows.append(
                [position, result.id, result.trial.index, result.trial.attempt, str(result.status),
                 len(time.samples) if time else None, *(_ten_digits(values.get(metric)) for metric in metrics)]
            )  # fmt: skip
    return {
        "schema": ISLAND_SCHEMA,
        "generated_at": now,
        "runs": [{"id": run.id, "suite": run.suite, "started_at": run.started_at, "seed": run.seed} for run in runs],
        "points": {"columns": POINT_COLUMNS, "rows": [json.loads(text) for text in points]},
        "cases": {"columns": CASE_COLUMNS, "rows": case_rows},
        "trials": {"columns": (*TRIAL_COLUMNS, *metrics), "rows": trial_rows},
    }


def as_script_text(data: Json) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
