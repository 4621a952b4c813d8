"""Results as a pandas DataFrame, for notebooks and scripts: `bench.results(...)`. pandas is imported only when asked for one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench import stats
from bench.catalogue.names import unknown
from bench.errors import SelectionError
from bench.metrics import METRICS
from bench.records import FIXED_AXES, Json, Result, Run
from bench.run.canaries import is_canary
from bench.suite.arms import label_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "results"]

_FIRST = ("suite", "run", "started_at", "label", "workload", "subject", "canary")
_LAST = (
    *("trial", "arm", "attempt", "status", "reason", "metric", "unit", "scope", "median", "p05", "p95", "n_samples"),
    *("result", "environment", "software", "method"),
)
_OURS = frozenset((*_FIRST, *_LAST))


def _lines(runs: Sequence[Run], rows: Sequence[Result], metrics: Sequence[str] | None) -> list[dict[str, Json]]:
    by_id = {run.id: run for run in runs}
    labels = {run.id: label_of(run.suite_data) for run in runs}
    lines: list[dict[str, Json]] = []
    for row in rows:
        run = by_id.get(row.run_id)
        if run is None:
            continue
        case = row.case
        canary = is_canary(case, str(run.suite_data.get("workload", case.workload)))
        known = (run.suite, run.id, row.started_at, run.label, case.workload, labels[run.id](case.subject), canary)
        line: dict[str, Json] = dict(zip(_FIRST, known, strict=True))
        axes = {**case.subject, **{axis: case.axis_value(axis) for axis in FIXED_AXES}, **case.params}
        # A parameter must not hide one of our own columns.
        line |= {(f"param_{name}" if name in _OURS else name): value for name, value in axes.items()}
        line |= {"trial": row.trial.index, "arm": row.trial.arm, "attempt": row.trial.attempt, "status": str(row.status),
                 "reason": row.reason}  # fmt: skip
        wanted = [m for m in row.measurements if metrics is None or m.metric in metrics]
        absent = [] if metrics is None else [name for name in metrics if not any(m.metric == name for m in wanted)]
        tail = {"result": row.id, "environment": row.environment.hard_hash[:12], "software": row.environment.soft_hash[:12],
                "method": row.method_version}  # fmt: skip
        for m in wanted:
            lines.append({**line, "metric": m.metric, "unit": m.unit, "scope": m.scope, **_statistics(m.samples), **tail})
        for name in absent:
            unit = METRICS[name].unit if name in METRICS else None
            lines.append({**line, "metric": name, "unit": unit, "scope": None, **_statistics(()), **tail})
    return lines


def _statistics(samples: Sequence[float]) -> dict[str, Json]:
    """One sample has no percentiles but itself, so it has none here."""
    several = len(samples) > 1
    return {
        "median": stats.median(samples) if samples else None,
        "p05": stats.quantile(samples, 0.05) if several else None,
        "p95": stats.quantile(samples, 0.95) if several else None,
        "n_samples": len(samples),
    }


def frame(runs: Sequence[Run], rows: Sequence[Result], metric: str | Sequence[str] | None = "time_s") -> pd.DataFrame:
    """A tidy frame: one line for each trial and metric, every axis and parameter a column.

    | Columns | Hold |
    |---|---|
    | `suite`, `run`, `label` | the run: its suite, id and label |
    | `started_at` | when the trial began: UTC, ISO 8601; empty where an imported source does not tell |
    | `workload`, `subject`, a column for each slot | what was measured |
    | `canary` | True for rows that only show the machine |
    | `pass`, `dtype`, `device`, `cache`, `timer`, `world_size`, and a column for each parameter | the case |
    | `trial`, `arm`, `attempt` | which trial of the case |
    | `status`, `reason` | how it ended, and why where that is not `ok` |
    | `metric`, `unit`, `scope` | what the numbers are; seconds and bytes, as `unit` says |
    | `median`, `p05`, `p95`, `n_samples` | of the trial's samples; `<NA>` where there is none, and percentiles of one sample are none |
    | `result` | the row's id, as `bench show` takes it |
    | `environment`, `software` | beginnings of the hashes of hard and soft facts: never compare across the first |
    | `method` | version of the measuring method: never compare times across it; 0 where another tool measured |

    A parameter that would hide one of these columns becomes `param_NAME`. A trial without the metric (OOM, unsupported …) keeps its line,
    with `status` to say why. `metric=None` takes whatever was measured, and then only that. Excluded rows are left out. Rows of imported
    files have a workload that begins with the tool's name (`liger:rope`).
    """
    return _framed(_lines(runs, rows, _names(metric)))


def _names(metric: str | Sequence[str] | None) -> list[str] | None:
    return [metric] if isinstance(metric, str) else None if metric is None else list(metric)


def _framed(lines: list[dict[str, Json]]) -> pd.DataFrame:
    import pandas as pd

    made = pd.DataFrame(lines) if lines else pd.DataFrame(columns=[*_FIRST, *FIXED_AXES, *_LAST])
    for name in ("median", "p05", "p95"):
        made[name] = made[name].astype("Float64")
    made["n_samples"] = made["n_samples"].astype("Int64")
    return made


def results(
    db: str | Path | None = None, *, suite: str | None = None, run: str | None = None, metric: str | Sequence[str] | None = "time_s"
) -> pd.DataFrame:
    """Reads a database into a tidy frame; see `frame` for its columns.

    Args:
        db: path or SQLAlchemy URL; by default `BENCH_DB` or `results/bench.db`.
        suite: only runs of the suite with this name.
        run: only this run: its id, a unique beginning of it, its label, or `latest`.
        metric: a name of `bench list metrics`, several, or None for all.

    Raises:
        bench.errors.StoreError, bench.errors.SelectionError: the database, the run, the suite or a metric cannot be found.
    """
    from bench.store import Store

    with Store.open(db or os.environ.get("BENCH_DB") or "results/bench.db", create=False, read_only=True) as store:
        runs = [store.find_run(run)] if run else store.runs()
        if suite:
            known = list(dict.fromkeys(found.suite for found in runs))
            runs = [found for found in runs if found.suite == suite]
            if not runs:
                where = f"run {run} is of suite {known[0]}, not {suite}" if run else unknown("suite", suite, known)
                raise SelectionError(f"{store.location.shown}: {where}")
        names = _names(metric)
        # A run at a time: a database of years need not fit into memory.
        lines = [line for found in runs for line in _lines([found], store.results([found.id], metrics=names), names)]
    measured = {line["metric"] for line in lines if line["n_samples"]}
    for name in names or ():
        if name not in METRICS and name not in measured:
            raise SelectionError(unknown("metric", name, list(METRICS)))
    return _framed(lines)
