"""Evidence made by hand, and noise drawn from a seed, for tests of verdicts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from bench.judge.evidence import Evidence, TrialRow
from bench.records import Case, Environment, Run, Status
from tests import factories

H200 = {"device": "cuda", "gpu_model": "NVIDIA H200", "count": 1}


def noisy(rng: random.Random, centre: float, spread: float, n: int) -> list[float]:
    """Process medians whose logarithms have the standard deviation `spread`."""
    return [centre * math.exp(rng.gauss(0.0, spread)) for _ in range(n)]


def trials(
    of: Case,
    times: Sequence[float | None],
    *,
    environment: Environment | None = None,
    gpu: str | None = None,
    status: Status = Status.OK,
    method_version: int = 1,
    arm: str = "-",
    run_id: str = "",
    **medians: float | Sequence[float],
) -> list[TrialRow]:
    """One row a time; other metrics by keyword, one number for all rows or one for each."""
    made = environment or factories.environment()
    rows = []
    for index, time_s in enumerate(times):
        others = {name: value if isinstance(value, int | float) else value[index] for name, value in medians.items()}
        rows.append(
            TrialRow(
                run_id=run_id,
                case_key=of.key,
                arm=arm,
                status=status,
                reason=None if status is Status.OK else f"because it is {status}",
                environment_id=made.hard_hash + made.soft_hash,
                hard_hash=made.hard_hash,
                method_version=method_version,
                gpu=gpu,
                medians={"time_s": time_s, **others} if status is Status.OK else {},
                command="bench run suites/attention.yaml --filter attention=eager --trials 5",
                started_at="2026-01-02T03:04:05+00:00",
            )
        )
    return rows


def evidence(
    rows: Iterable[TrialRow], cases: Iterable[Case], environments: Sequence[Environment] = (), run: Run | None = None
) -> Evidence:
    made = run or factories.run()
    listed = [*environments] or [factories.environment()]
    own = tuple(row if row.run_id else _of(row, made) for row in rows)
    return Evidence(
        (made,), own, {case.key: case for case in cases}, {found.hard_hash + found.soft_hash: found for found in listed}
    )


def _of(row: TrialRow, run: Run) -> TrialRow:
    import dataclasses

    return dataclasses.replace(row, run_id=run.id)
