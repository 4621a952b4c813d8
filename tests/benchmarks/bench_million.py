"""Two minutes: what is asked of a database of 92 nights, a million measurements. `pytest tests/benchmarks/bench_million.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bench
from bench.cli import main
from bench.store import Store
from tests.benchmarks import nights

NIGHTS = 92
ROUNDS = 5


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("million") / "bench.db"
    with Store.open(path) as store:
        for night in range(NIGHTS):
            run = nights.run_of_night(night)
            store.add_run(run)
            store.add_results(nights.results_of(run))
    assert NIGHTS * nights.RESULTS * nights.METRICS_EACH > 10**6
    return path


def test_results_of_the_newest_run(benchmark: Any, million: Path) -> None:
    """What `bench report` and `bench show RUN` ask."""

    def ask() -> int:
        with Store.open(million, create=False, read_only=True) as store:
            return len(store.results([store.find_run("latest").id], include_excluded=True))

    assert benchmark.pedantic(ask, rounds=ROUNDS) == nights.RESULTS


def said(*arguments: str | Path) -> int:
    """A command as typed, without the start of an interpreter; what it prints is captured."""
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize("format_", ["text", "json"])
def test_compare_of_the_newest_two_runs(benchmark: Any, million: Path, format_: str) -> None:
    with Store.open(million, create=False, read_only=True) as store:
        newest, before = (run.id for run in store.runs()[:2])
    command = "compare", before, newest, "--db", million, "--format", format_
    assert benchmark.pedantic(lambda: said(*command), rounds=ROUNDS, warmup_rounds=1) in (0, 1)


def test_history_of_one_series(benchmark: Any, million: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("history", "--db", million, "--last", "2", "--metric", "time_s", "--json") == 0
    key = json.loads(capsys.readouterr().out)[7]["series"]
    assert benchmark.pedantic(lambda: said("history", key, "--db", million), rounds=ROUNDS, warmup_rounds=1) == 0


def test_history_of_all_series(benchmark: Any, million: Path) -> None:
    assert benchmark.pedantic(lambda: said("history", "--db", million, "--metric", "time_s"), rounds=1) == 0


def test_regress_of_the_newest_run(benchmark: Any, million: Path) -> None:
    assert benchmark.pedantic(lambda: said("regress", "--db", million), rounds=1) in (0, 1, 3)


def test_report_of_the_newest_run(benchmark: Any, million: Path, tmp_path: Path) -> None:
    """Its page and all; `test_results_of_the_newest_run` is the part that grows with the database."""
    command = "report", "--db", million, "-o", tmp_path / "report.html"
    assert benchmark.pedantic(lambda: said(*command), rounds=3, warmup_rounds=1) == 0


def test_the_list_of_runs(benchmark: Any, million: Path) -> None:
    """What `bench show` asks."""

    def ask() -> int:
        with Store.open(million, create=False, read_only=True) as store:
            return sum(len(store.done(run.id)) for run in store.runs()[:20])

    assert benchmark.pedantic(ask, rounds=ROUNDS) == 20 * nights.RESULTS


def test_one_result_by_the_beginning_of_its_id(benchmark: Any, million: Path) -> None:
    with Store.open(million, create=False, read_only=True) as store:
        wanted = store.results([store.find_run("latest").id])[7].id[:30]
    benchmark.pedantic(lambda: Store.open(million, read_only=True).find_result(wanted), rounds=ROUNDS)


def test_a_frame_of_the_newest_run(benchmark: Any, million: Path) -> None:
    frame = benchmark.pedantic(lambda: bench.results(million, run="latest"), rounds=ROUNDS, warmup_rounds=1)
    assert len(frame) == nights.RESULTS


def test_what_a_dry_run_of_gc_counts(benchmark: Any, million: Path) -> None:
    from bench.store import Retention

    def ask() -> int:
        with Store.open(million, read_only=True) as store:
            return store.collect(Retention(), now="2026-09-01T00:00:00+00:00", dry_run=True).results

    assert benchmark.pedantic(ask, rounds=1) > 0
