"""Seconds: ingest, import, export, the suite's expansion, and the page of one night. `pytest tests/benchmarks/bench_store.py`."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.store import Store
from tests.benchmarks import nights
from tests.store.conftest import databases, new_url, postgresql  # noqa: F401 - fixtures
from tests.store.test_importers import liger_file, liger_line

ROOT = Path(__file__).parents[2]
ROUNDS = 5
LIGER_LINES = 2448


def test_ingest(benchmark: Any, new_url: Callable[[], str]) -> None:  # noqa: F811
    """2 000 results of 22 metrics in one transaction."""
    stores = []

    def fresh() -> tuple[tuple[Store, list[Any]], dict[str, Any]]:
        store = Store.open(new_url())
        stores.append(store)
        run = nights.run_of_night(0)
        store.add_run(run)
        return (store, list(nights.results_of(run, 2000))), {}

    benchmark.pedantic(lambda store, results: store.add_results(results), setup=fresh, rounds=ROUNDS)
    benchmark.extra_info["results_per_s"] = 2000 / benchmark.stats.stats.min
    for store in stores:
        store.close()


def test_one_result_at_a_time(benchmark: Any, new_url: Callable[[], str]) -> None:  # noqa: F811
    """As a run does: each row is on the disk before the next trial."""
    with Store.open(new_url()) as store:
        run = nights.run_of_night(0)
        store.add_run(run)
        results = itertools.chain.from_iterable(iter(lambda: nights.results_of(run, 100), None))
        fresh = itertools.count()

        def add() -> None:
            result = next(results)
            store.add_result(dataclasses.replace(result, trial=dataclasses.replace(result.trial, index=next(fresh))))

        benchmark.pedantic(add, rounds=100)


def test_import_of_a_csv_of_2449_lines(benchmark: Any, tmp_path: Path) -> None:
    lines = [
        liger_line(
            kernel_name=f"kernel {number % 12}",
            kernel_provider=("liger", "huggingface")[number % 2],
            metric_name=("speed", "memory")[number // 2 % 2],
            metric_unit=("ms", "MB")[number // 2 % 2],
            x_value=2 ** (number % 9),
            y_value_50=1 + number * 1e-3,
            extra_benchmark_config_str=json.dumps({"B": number // 40, "dtype": "torch.bfloat16"}),
        )
        for number in range(LIGER_LINES)
    ]
    path = liger_file(tmp_path / "all.csv", *lines)
    names = itertools.count()

    def fresh() -> tuple[tuple[Store], dict[str, Any]]:
        return (Store.open(tmp_path / f"{next(names)}.db"),), {}

    benchmark.pedantic(lambda store: (store.import_file(path), store.close()), setup=fresh, rounds=ROUNDS)


@pytest.fixture
def night(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "night.db") as store:
        run = nights.run_of_night(0)
        store.add_run(run)
        store.add_results(nights.results_of(run))
    return tmp_path / "night.db"


def test_export_and_import_of_a_night(benchmark: Any, night: Path, tmp_path: Path) -> None:
    names = itertools.count()

    def there_and_back() -> None:
        with Store.open(night) as store, Store.open(tmp_path / f"back-{next(names)}.db") as other:
            store.export_jsonl(tmp_path / "out.jsonl")
            other.import_file(tmp_path / "out.jsonl")

    benchmark.pedantic(there_and_back, rounds=ROUNDS)


def test_page_of_a_night(benchmark: Any, night: Path) -> None:
    from bench.report import render_html

    with Store.open(night) as store:
        benchmark.pedantic(lambda: render_html(store, store.runs(), now="2026-01-02T04:00:00+00:00"), rounds=3, warmup_rounds=1)


def test_expansion_of_a_suite(benchmark: Any) -> None:
    from bench.catalogue import load_catalogue
    from bench.suite import expand, load_suite

    catalogue = load_catalogue()
    file = ROOT / "suites/attention.yaml"
    benchmark.pedantic(lambda: expand(load_suite(file, catalogue), catalogue, device="cuda"), rounds=ROUNDS, warmup_rounds=1)
