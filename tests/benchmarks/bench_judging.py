"""Two minutes: what judging a year of nights takes, with the bounds that are promised. `pytest tests/benchmarks/bench_judging.py`."""

from __future__ import annotations

import dataclasses
import datetime
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.records import Case, Result, Run
from bench.store import Store, new_id
from tests import factories

NIGHTS, SERIES = 365, 500
COMPARED, PROCESSES = 5_000, 5
MEMORY = ("peak_bytes", "peak_total_bytes", "saved_bytes")
METRICS_EACH = 2 + len(MEMORY)
"""Of a case in a comparison: time, memory, and the error of its checks."""
COMPARE_S, HISTORY_S = 3.0, 10.0
"""Seconds of a command without the start of an interpreter. By CPU time, since other work may share the machine: one thread does it all."""

pytestmark = pytest.mark.benchmark(timer=time.process_time)


def rows(run: Run, cases: Sequence[Case], processes: int, factor: float = 1.0, *, memory: bool = False) -> list[Result]:
    rng = random.Random(run.id)
    further = tuple(factories.measurement(metric, (1e8,)) for metric in MEMORY if memory)

    def measured() -> tuple[Any, ...]:
        return factories.measurement("time_s", (1e-3 * factor * math.exp(rng.gauss(0, 0.005)),)), *further

    made = [factories.result(run.id, case, index=index, measurements=measured()) for case in cases for index in range(processes)]
    return [dataclasses.replace(result, id=new_id()) for result in made]


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process a night; every fifth series has a step of 5 % in it."""
    path = tmp_path_factory.mktemp("year") / "bench.db"
    cases = [factories.case("eager", seq_len=16 * place) for place in range(1, SERIES + 1)]
    with Store.open(path) as store:
        for night in range(NIGHTS):
            began = datetime.datetime(2025, 1, 1, 3, tzinfo=datetime.UTC) + datetime.timedelta(days=night)
            run = factories.run(id=new_id(), started_at=began.isoformat(), reason="nightly")
            store.add_run(run)
            stepped = [case for place, case in enumerate(cases) if place % 5 == 0 and night >= 60 + place // 2]
            usual = [case for case in cases if case not in stepped] if stepped else cases
            store.add_results([*rows(run, usual, 1), *rows(run, stepped, 1, 1.05)])
    return path


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "bench.db"
    cases = [factories.case("eager", seq_len=16 * place) for place in range(1, COMPARED // METRICS_EACH + 1)]
    with Store.open(path) as store:
        for label in ("a", "b"):
            run = factories.run(id=new_id(), label=label)
            store.add_run(run)
            store.add_results(rows(run, cases, PROCESSES, memory=True))
    return path


def test_history_of_five_hundred_series_over_a_year(benchmark: Any, year: Path) -> None:
    command = ["history", "--last", str(NIGHTS), "--db", str(year)]
    assert benchmark.pedantic(lambda: main(command), rounds=3) == 0
    assert benchmark.stats["min"] <= HISTORY_S


def test_compare_of_two_runs_of_five_thousand_series(benchmark: Any, two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "a", "b", "--db", str(two_runs)]
    assert benchmark.pedantic(lambda: main(command), rounds=3) == 0
    assert f"{COMPARED} same: nothing is worse among {COMPARED} judged rows" in capsys.readouterr().out
    assert benchmark.stats["min"] <= COMPARE_S
