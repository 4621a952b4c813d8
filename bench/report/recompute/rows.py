"""The rows that a page tells of, made again of the data inside it, so that its views can be made of them again.

Each has the median of its samples in their place, as many of them as there were; of checks and conditions what `evidence.py` repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from bench.metrics import METRICS
from bench.records import Environment, Json, Measurement, Proof, Result, Run, Status, Trial
from bench.report.numbers.by_rank import SCOPE
from bench.report.numbers.formats import MULTIPLIES_IN, UNKNOWN
from bench.report.numbers.summary import EXCLUDED, TIME
from bench.report.recompute.evidence import checks_of
from bench.store.page_data import PageAside, PageData, PageTrial

MOST_SAMPLES = 1000
"""More say nothing more: a case with fewer than a few dozen is doubtful."""


def rows_of(page: PageData) -> list[Result]:
    """All rows, those included that no value uses."""
    rows = [_row(page, trial) for trial in page.trials]
    return rows + [_aside(page, place, found) for place, found in enumerate(page.aside)]


def _row(page: PageData, trial: PageTrial) -> Result:
    case = page.cases[trial.case]
    run = page.runs[case.run]
    conditions: dict[str, Json] = dict(trial.conditions)
    if trial.gpu is not None:
        conditions["gpu_uuid"] = trial.gpu
    if trial.busy_share is not None:
        conditions["machine_busy_share"] = trial.busy_share
    if trial.checks is not None and trial.checks.tolerated:
        conditions.setdefault(MULTIPLIES_IN, UNKNOWN)  # a page of an older version, which shows no share of such a case
    return Result(
        id=trial.result,
        run_id=run.id,
        trial=Trial(case.case, trial.index, 0, 0, case.arm, attempt=trial.attempt),
        status=trial.status,
        reason=trial.reason,
        environment=page.environments[trial.environment],
        started_at=_moment(run, trial.at_s),
        duration_s=None,
        seed=None,
        command=case.command or "",
        measurements=tuple(_measurements(trial)),
        proof=None if case.proof is None else Proof(case.proof),
        cost=case.cost,
        conditions=conditions,
        checks=checks_of(trial.checks),
        method_version=trial.method_version,
        harness_version=run.harness_version,
    )


def _measurements(trial: PageTrial) -> Iterator[Measurement]:
    for name, value in trial.medians.items():
        many = min(trial.samples or 1, MOST_SAMPLES) if name == TIME else 1
        yield Measurement(name, _unit(name), (value,) * many)
    for rank, own in trial.by_rank.items():
        for name, value in own.items():
            yield Measurement(name, _unit(name), (value,), scope=f"{SCOPE}{rank}")


def _unit(name: str) -> str:
    return METRICS[name].unit if name in METRICS else "unknown"


def _moment(run: Run, after_s: float | None) -> str:
    try:
        return (datetime.fromisoformat(run.started_at) + timedelta(seconds=after_s or 0.0)).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return run.started_at


def _aside(page: PageData, place: int, found: PageAside) -> Result:
    """How it ended is not told, and nothing that is shown hangs on it."""
    case = page.cases[found.case]
    run = page.runs[case.run]
    excluded = found.why.removeprefix(EXCLUDED) if found.why.startswith(EXCLUDED) else None
    return Result(
        id=f"aside {place}",
        run_id=run.id,
        trial=Trial(case.case, found.index, 0, 0, case.arm, attempt=found.attempt),
        status=Status.FAILED,
        reason=found.why,
        environment=Environment({}, {}),
        started_at=run.started_at,
        duration_s=None,
        seed=None,
        command=case.command or "",
        excluded_reason=excluded,
    )
