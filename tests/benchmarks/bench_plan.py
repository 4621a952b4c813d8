"""Seconds: the plan of a suite, guessed from earlier nights, and the memory model. `pytest tests/benchmarks/bench_plan.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.store import Store
from tests.benchmarks import nights

ROOT = Path(__file__).parents[2]
ROUNDS = 5
NIGHTS = 5


@pytest.fixture
def week(tmp_path: Path) -> Path:
    """As many nights as a plan looks at."""
    with Store.open(tmp_path / "week.db") as store:
        for night in range(NIGHTS):
            run = nights.run_of_night(night)
            store.add_run(run)
            store.add_results(nights.results_of(run))
    return tmp_path / "week.db"


def test_plan_of_a_suite_with_earlier_nights(benchmark: Any, week: Path) -> None:
    """`bench run --dry-run`, which ends where the first trial would begin."""
    command = ["run", str(ROOT / "suites/attention.yaml"), "--dry-run", "--device", "cpu", "--profile", "cpu", "--db", str(week)]
    assert benchmark.pedantic(lambda: main(command), rounds=ROUNDS, warmup_rounds=1) == 0


def test_what_fits_on_a_gpu(benchmark: Any) -> None:
    command = ["plan", "--model", "llama-3-8b", "--seq-len", "16384", "--gpu", "h200"]
    assert benchmark.pedantic(lambda: main(command), rounds=ROUNDS, warmup_rounds=1) == 0
