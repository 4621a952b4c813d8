"""A run as pytest-benchmark's JSON, so that `pytest-benchmark compare` can lay it beside others.

A case becomes a benchmark and a trial a round: a round's time is the median of its trial's samples, since trials and not iterations are
what differs between two measurements of one thing. The format knows only times, so cases without one are left out, and counted; so are
excluded rows, attempts that were made anew, and every case of which a trial was incorrect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bench import __version__, stats
from bench.errors import SelectionError
from bench.metrics import METRICS
from bench.records import Environment, Json, Result, Run, Status
from bench.store.exchange import replacing

if TYPE_CHECKING:
    from bench.store.database import Store

_TIME = "time_s"


@dataclass(frozen=True, slots=True)
class PytestReport:
    """What was written: benchmarks, and cases that have no time to write."""

    benchmarks: int
    left_out: int


def export_pytest_benchmark(store: Store, out: BinaryIO | Path, run_id: str) -> PytestReport:
    """Writes the times of a run. Raises SelectionError for a run without any, StoreError where `out` cannot be written."""
    run = store.find_run(run_id)
    cases = _by_case(store.results([run.id]))
    timed = {key: rows for key, rows in cases.items() if rows}
    if not timed:
        raise SelectionError(f"run {run.id} has no time that could be exported: no case of it is ok")
    text = json.dumps(_document(run, list(timed.values())), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    if isinstance(out, Path):
        with replacing(out) as file:
            file.write(text)
    else:
        out.write(text)
    return PytestReport(len(timed), len(cases) - len(timed))


def _by_case(rows: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
    """Case and arm to the rows that count for its time, the last attempt of each trial; [] for a case that has none."""
    newest: dict[tuple[str, str], dict[int, Result]] = {}
    for row in rows:
        trials = newest.setdefault((row.case.key, row.trial.arm), {})
        if row.trial.index not in trials or trials[row.trial.index].trial.attempt < row.trial.attempt:
            trials[row.trial.index] = row
    return {
        key: []
        if any(row.status is Status.INCORRECT for row in trials.values())
        else [row for _, row in sorted(trials.items()) if row.status is Status.OK and row.measurement(_TIME) is not None]
        for key, trials in newest.items()
    }


def _document(run: Run, cases: Sequence[Sequence[Result]]) -> dict[str, Json]:
    return {
        "machine_info": _machine(cases[0][0].environment),
        "commit_info": _commit(run),
        "benchmarks": [_benchmark(run, rows) for rows in cases],
        "datetime": run.started_at,
        "version": f"stepbench {__version__}",
    }


def _machine(environment: Environment) -> dict[str, Json]:
    facts = {**environment.hard, **environment.soft}
    return {
        "node": "not told",
        "processor": facts.get("cpu_model") or facts.get("gpu_model") or "not told",
        "machine": facts.get("device", "not told"),
        "python_version": facts.get("python", "not told"),
        "hard": dict(environment.hard),
        "soft": dict(environment.soft),
    }


def _commit(run: Run) -> dict[str, Json]:
    item = next((item for item in run.revision if item.commit), None)
    return {
        "id": "unversioned" if item is None else item.commit,
        "dirty": bool(item is not None and item.dirty),
        "project": run.suite if item is None else item.name,
    }


def _benchmark(run: Run, rows: Sequence[Result]) -> dict[str, Json]:
    case, arm = rows[0].case, rows[0].trial.arm
    point = {**case.point_data(), **case.params}
    axes = {name: value for name, value in point.items() if name not in ("params", "workload_version") and value is not None}
    subject = case.subject_label if arm == "-" else f"{case.subject_label} [{arm}]"
    words = ",".join(f"{name}={value}" for name, value in axes.items() if name != "workload")
    name = f"{case.workload}[{subject},{words}]"
    times = [stats.median(found.samples) for row in rows if (found := row.measurement(_TIME)) is not None]
    return {
        "group": f"{case.workload} {words}",
        "name": name,
        "fullname": f"{run.suite}::{name}",
        "params": {"subject": subject, **axes},
        "param": subject,
        "extra_info": {"run": run.id, "results": [row.id for row in rows], "command": rows[0].command, "medians": _others(rows)},
        "options": {
            "timer": case.timer,
            "rounds_are": "trials, each in a process of its own: a round is the median of its samples",
        },
        "stats": _statistics(times),
    }


def _others(rows: Sequence[Result]) -> Mapping[str, float]:
    """Medians over trials of the other metrics that subjects are compared by, in their own units."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for m in row.measurements:
            if m.scope == "trial" and m.metric != _TIME and not (m.metric in METRICS and METRICS[m.metric].harness):
                found.setdefault(m.metric, []).append(stats.median(m.samples))
    return {metric: stats.median(values) for metric, values in found.items()}


def _statistics(times: Sequence[float]) -> dict[str, Json]:
    """The fields that the tool's tables read; quartiles by linear interpolation."""
    centre, q1, q3 = stats.mean(times), stats.quantile(times, 0.25), stats.quantile(times, 0.75)
    deviation = stats.stdev(times) if len(times) > 1 else 0.0
    fence = 1.5 * (q3 - q1)
    far = sum(abs(time - centre) > deviation for time in times)
    outside = sum(not q1 - fence <= time <= q3 + fence for time in times)
    total = sum(times)
    return {
        "min": min(times),
        "max": max(times),
        "mean": centre,
        "stddev": deviation,
        "rounds": len(times),
        "median": stats.median(times),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": outside,
        "stddev_outliers": far,
        "outliers": f"{far};{outside}",
        "ld15iqr": min(time for time in times if time >= q1 - fence),
        "hd15iqr": max(time for time in times if time <= q3 + fence),
        "ops": len(times) / total if total > 0 else 0.0,
        "total": total,
        "iterations": 1,
        "data": list(times),
    }
