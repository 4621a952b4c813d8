"""Results as a DataFrame."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import api
from bench.errors import SelectionError, StoreError
from bench.records import Status
from bench.report import render_html
from tests import factories
from tests.report.gpu_sample import gpu_run


def _store(path: Path) -> None:
    from bench.store import Store

    with Store.open(path) as store:
        for suite in ("attention", "norms"):
            run = factories.run(suite=suite, label=f"my-{suite}")
            store.add_run(run)
            store.add_result(factories.result(run.id, factories.case(seq_len=128), time_s=0.5))
            store.add_result(factories.result(run.id, factories.case(seq_len=4096), status=Status.OOM))


def test_a_trial_without_the_metric_keeps_its_line_without_a_number(tmp_path: Path) -> None:
    _store(tmp_path / "bench.db")
    frame = api.results(tmp_path / "bench.db", suite="attention")
    assert len(frame) == 2
    ok, oom = (frame[frame["status"] == status].iloc[0] for status in ("ok", "oom"))
    assert ok["median"] == pytest.approx(0.505)
    assert (ok["unit"], ok["n_samples"], ok["seq_len"], ok["attention"], ok["pass"]) == ("s", 3, 128, "eager", "forward")
    assert frame["median"].isna().sum() == 1
    assert oom["reason"]
    assert oom["n_samples"] == 0


def test_several_metrics_are_several_lines_and_none_means_all_that_was_measured(tmp_path: Path) -> None:
    _store(tmp_path / "bench.db")
    both = api.results(tmp_path / "bench.db", run="my-norms", metric=["time_s", "peak_bytes"])
    assert sorted(both["metric"]) == ["peak_bytes", "peak_bytes", "time_s", "time_s"]
    everything = api.results(tmp_path / "bench.db", run="my-norms", metric=None)
    assert sorted(everything["metric"]) == ["peak_bytes", "time_s"]


def test_what_is_not_there_is_an_error_that_a_user_can_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.results(tmp_path / "absent.db")
    _store(tmp_path / "bench.db")
    with pytest.raises(SelectionError):
        api.results(tmp_path / "bench.db", run="no such run")
    with pytest.raises(SelectionError, match="unknown suite 'no such suite'; known: "):
        api.results(tmp_path / "bench.db", suite="no such suite")


def test_the_page_comes_from_a_real_store_with_excluded_rows_marked(tmp_path: Path) -> None:
    from bench.store import Store

    _store(tmp_path / "bench.db")
    with Store.open(tmp_path / "bench.db") as store:
        run = store.find_run("my-attention")
        extra = factories.result(run.id, factories.case(seq_len=128), index=1)
        store.add_result(extra)
        store.exclude(extra.id, "a backup ran")
        page = render_html(store, [run], now="2026-01-02T04:00:00+00:00")
    assert "excluded: a backup ran" in page


def test_importing_the_report_and_the_api_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "pandas", "matplotlib", "sqlalchemy")
    code = f"import sys, bench.api, bench.report; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rows_that_only_show_the_machine_are_marked() -> None:
    run, rows = gpu_run(trials=1)
    frame = api.frame([run], rows)
    assert set(frame[frame["canary"]]["workload"]) == {"matmul", "copy"}
    assert set(frame[~frame["canary"]]["workload"]) == {"attention"}
