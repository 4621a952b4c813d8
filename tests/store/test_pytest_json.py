"""A run as pytest-benchmark's JSON: the tool itself reads it, and our own importer takes it back."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import SelectionError
from bench.records import Run, Status
from bench.store import Store, new_id
from tests import factories


def fill(store: Store, *, slower: float = 1.0) -> Run:
    run = factories.run(id=new_id(), label=f"x{slower}")
    store.add_run(run)
    for subject, time_s in (("eager", 2e-3 * slower), ("sdpa_math", 1e-3)):
        for index in range(3):
            row = factories.result(run.id, factories.case(subject), index=index, time_s=time_s * (1 + index / 10))
            store.add_result(dataclasses.replace(row, id=new_id()))
    store.add_result(factories.result(run.id, factories.case("sdpa_flash"), status=Status.OOM))
    return run


def test_the_tool_compares_two_runs(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        for name, slower in (("before.json", 1.0), ("after.json", 3.0)):
            report = store.export_pytest_benchmark(tmp_path / name, fill(store, slower=slower).id)
            assert (report.benchmarks, report.left_out) == (2, 1)
    command = [
        Path(sys.executable).with_name("pytest-benchmark"),
        "compare",
        "before.json",
        "after.json",
        "--group-by=fullname",
        "--csv=out.csv",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Failed to load" not in done.stdout + done.stderr
    assert done.stdout.count("attention[eager,pass=forward,dtype=fp32") >= 2
    assert "sdpa_flash" not in done.stdout
    lines = (tmp_path / "out.csv").read_text()
    assert "0.0066" in lines
    assert "0.0022" in lines


def test_a_round_is_the_median_of_a_trial(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        store.export_pytest_benchmark(tmp_path / "out.json", fill(store).id)
    data = json.loads((tmp_path / "out.json").read_text())
    eager = next(entry for entry in data["benchmarks"] if entry["param"] == "eager")["stats"]
    trials = [2e-3 * (1 + index / 10) * 1.01 for index in range(3)]
    assert eager["data"] == pytest.approx(trials)
    assert eager["rounds"] == 3
    for name in ("min", "max", "mean", "median", "stdev"):
        expected = {"min": min, "max": max}.get(name) or getattr(statistics, name)
        assert eager["stddev" if name == "stdev" else name] == pytest.approx(expected(trials))
    assert data["commit_info"]["id"] == "0" * 40


def test_what_is_excluded_incorrect_or_made_anew_does_not_count(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        run = factories.run()
        store.add_run(run)
        wrong = factories.case("wrong")
        good = [factories.result(run.id, index=index) for index in range(3)]
        store.add_results(
            [
                *good,
                factories.result(run.id, wrong, index=0),
                factories.result(run.id, wrong, index=1, status=Status.INCORRECT),
            ]
        )
        anew = dataclasses.replace(good[2], id="anew", trial=dataclasses.replace(good[2].trial, attempt=1))
        store.add_result(anew)
        store.exclude(good[0].id, "too warm")
        report = store.export_pytest_benchmark(tmp_path / "out.json", run.id)
        assert (report.benchmarks, report.left_out) == (1, 1)
        (entry,) = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
        assert entry["extra_info"]["results"] == [good[1].id, "anew"]


def test_a_run_without_a_time_is_refused(store: Store, tmp_path: Path) -> None:
    run = factories.run()
    store.add_run(run)
    store.add_result(factories.result(run.id, status=Status.OOM))
    with pytest.raises(SelectionError, match="no case of it is ok"):
        store.export_pytest_benchmark(tmp_path / "out.json", run.id)
    assert not (tmp_path / "out.json").exists()


def test_our_own_importer_reads_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store, Store.open(tmp_path / "other.db") as other:
        store.export_pytest_benchmark(tmp_path / "out.json", fill(store).id)
        assert other.import_file(tmp_path / "out.json").results_new == 2
        (run,) = other.runs()
        assert {row.case.params["subject"] for row in other.results([run.id])} == {"eager", "sdpa_math"}
