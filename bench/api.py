"""Results as a pandas DataFrame, for notebooks and scripts; pandas is imported only when asked for one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench import stats
from bench.records import FIXED_AXES, METRICS, Json, Result, Run
from bench.run.canaries import is_canary

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "results"]


def _lines(runs: Sequence[Run], rows: Sequence[Result], metrics: Sequence[str] | None) -> list[dict[str, Json]]:
    by_id = {run.id: run for run in runs}
    lines: list[dict[str, Json]] = []
    for row in rows:
        run = by_id.get(row.run_id)
        if run is None:
            continue
        case = row.case
        line: dict[str, Json] = {"suite": run.suite, "run": run.id, "label": run.label, "workload": case.workload}
        line["subject"] = case.subject_label
        line["canary"] = is_canary(case, str(run.suite_data.get("workload", case.workload)))
        axes = {**case.subject, **{axis: case.axis_value(axis) for axis in FIXED_AXES}, **case.params}
        # A parameter must not hide one of our own columns.
        line |= {(f"param_{name}" if name in line else name): value for name, value in axes.items()}
        line |= {"trial": row.trial.index, "arm": row.trial.arm, "attempt": row.trial.attempt, "status": str(row.status),
                 "reason": row.reason}  # fmt: skip
        wanted = [m for m in row.measurements if metrics is None or m.metric in metrics]
        absent = [] if metrics is None else [name for name in metrics if not any(m.metric == name for m in wanted)]
        tail = {"result": row.id, "environment": row.environment.hard_hash[:12], "software": row.environment.soft_hash[:12]}
        for m in wanted:
            lines.append({**line, "metric": m.metric, "unit": m.unit, "scope": m.scope, "median": stats.median(m.samples),
                          "n_samples": len(m.samples), **tail})  # fmt: skip
        for name in absent:
            unit = METRICS[name].unit if name in METRICS else None
            lines.append({**line, "metric": name, "unit": unit, "scope": None, "median": None, "n_samples": 0, **tail})
    return lines


def frame(runs: Sequence[Run], rows: Sequence[Result], metric: str | Sequence[str] | None = "time_s") -> pd.DataFrame:
    """A tidy frame: one line for each trial and metric, every axis and parameter a column.

    `median` is the median of the trial's samples, in seconds or bytes as `unit` says. A trial without the metric (OOM, unsupported …)
    keeps its line: `median` is `<NA>` and `status` says why. `metric=None` takes whatever was measured, and then only that. `canary` marks
    the rows that only show the machine.
    """
    import pandas as pd

    metrics = [metric] if isinstance(metric, str) else None if metric is None else list(metric)
    made = pd.DataFrame(_lines(runs, rows, metrics))
    if "median" in made:
        made["median"] = made["median"].astype("Float64")
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
        bench.errors.StoreError, bench.errors.SelectionError: the database or the run cannot be found.
    """
    from bench.store import Store

    with Store.open(db or os.environ.get("BENCH_DB") or "results/bench.db", create=False, read_only=True) as store:
        runs = [store.find_run(run)] if run else store.runs(suite=suite)
        if suite:
            runs = [found for found in runs if found.suite == suite]
        return frame(runs, store.results([found.id for found in runs]), metric)
