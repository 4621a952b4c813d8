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
    hard_hash, environment_id, case_key = _hashes(made, of)
    rows = []
    for index, time_s in enumerate(times):
        others = {name: value if isinstance(value, int | float) else value[index] for name, value in medians.items()}
        rows.append(
            TrialRow(
                run_id=run_id,
                case_key=case_key,
                arm=arm,
                status=status,
                reason=None if status is Status.OK else f"because it is {status}",
                environment_id=environment_id,
                hard_hash=hard_hash,
                method_version=method_version,
                gpu=gpu,
                medians={"time_s": time_s, **others} if status is Status.OK else {},
                command="bench run suites/attention.yaml --filter attention=eager --trials 5",
                started_at="2026-01-02T03:04:05+00:00",
            )
        )
    return rows


_known: dict[str, tuple[str, str]] = {}


def _hashes(environment: Environment, of: Case) -> tuple[str, str, str]:
    """Hashes of an environment, and of it and a case; each computed once, since tests make rows by the ten thousand."""
    name, case_name = repr(environment), repr(of)
    if name not in _known:
        _known[name] = environment.hard_hash, environment.hard_hash + environment.soft_hash
    if case_name not in _known:
        _known[case_name] = of.key, ""
    return *_known[name], _known[case_name][0]


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
