"""Other tools' files: what they say comes in, what they don't say stays unknown, and nobody takes their rows for ours."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SelectionError, StoreError
from bench.records import METHOD_VERSION, Pass, Result, RevisionItem, Run, Status
from bench.store import Store, importers, new_id, publish
from tests import factories

COLUMNS = (
    *("kernel_name", "kernel_provider", "kernel_operation_mode", "metric_name", "metric_unit", "x_name", "x_label", "x_value"),
    *("y_value_50", "y_value_20", "y_value_80", "extra_benchmark_config_str", "gpu_name", "timestamp", "liger_version"),
)


def liger_line(**changes: Any) -> dict[str, Any]:
    return {
        "kernel_name": "swish", "kernel_provider": "liger", "kernel_operation_mode": "full", "metric_name": "speed", "metric_unit": "ms",
        "x_name": "T", "x_label": "tokens", "x_value": 64, "y_value_50": 2.0, "y_value_20": 1.5, "y_value_80": 4.0,
        "extra_benchmark_config_str": '{"H": 32, "dtype": "torch.bfloat16"}', "gpu_name": "NVIDIA Toy 1",
        "timestamp": "2025-01-02 03:04:05", "liger_version": "9.9.9", **changes,
    }  # fmt: skip


def liger_file(path: Path, *lines: dict[str, Any]) -> Path:
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)
    return path


def pytest_benchmark_file(path: Path, **changes: Any) -> Path:
    entry = {
        "group": None, "name": "test_sort[10]", "fullname": "tests/test_sort.py::test_sort[10]", "params": {"size": 10}, "param": "10",
        "extra_info": {}, "options": {"timer": "perf_counter"},
        "stats": {"min": 1e-6, "max": 3e-6, "mean": 2e-6, "stddev": 1e-6, "rounds": 3, "median": 2e-6, "iqr": 1e-6, "q1": 1.5e-6,
                  "q3": 2.5e-6, "iqr_outliers": 0, "iterations": 5, "total": 6e-6},
    }  # fmt: skip
    entry["stats"] |= changes.pop("stats", {})
    data = {
        "machine_info": {"node": "toy", "machine": "x86_64", "system": "Linux", "python_version": "3.99", "cpu": {"brand_raw": "Toy CPU"}},
        "commit_info": {"id": "abc123", "dirty": True, "project": "sorting"}, "benchmarks": [entry],
        "datetime": "2025-01-02T04:04:05+01:00", "version": "5.0.0", **changes,
    }  # fmt: skip
    path.write_text(json.dumps(data, indent=1))
    return path


def nvbench_state(name: str, **changes: Any) -> dict[str, Any]:
    def summary(tag: str, kind: str, value: str) -> dict[str, Any]:
        return {"tag": tag, "name": tag, "data": [{"name": "value", "type": kind, "value": value}]}

    return {
        "name": name, "device": 0, "axis_values": [{"name": "Size", "type": "int64", "value": "4096"}], "is_skipped": False,
        "summaries": [
            summary("nv/cold/sample_size", "int64", "50"),
            summary("nv/cold/time/gpu/mean", "float64", "0.002"),
            summary("nv/cold/time/gpu/stdev/relative", "float64", "0.01"),
            summary("nv/cold/walltime", "float64", "0.5"),
            summary("nv/batch/sample_size", "int64", "80"),
            summary("nv/batch/time/gpu/mean", "float64", "0.001"),
        ], **changes,
    }  # fmt: skip


def nvbench_file(path: Path, *states: dict[str, Any]) -> Path:
    devices = [
        {"id": n, "name": f"Toy GPU {n}", "sm_version": 900, "number_of_sms": 8, "global_memory_size": 8 * 2**30} for n in (0, 1)
    ]
    version = {"json": {"string": "1.0.0"}, "nvbench": {"string": "0.1.0", "git_sha": "beef", "git_is_dirty": False}}
    data = {
        "meta": {"argv": ["./toy", "--json", "a b.json"], "version": version},
        "devices": devices,
        "benchmarks": [{"name": "spin", "states": list(states or (nvbench_state("Device=0"),))}],
    }
    path.write_text(json.dumps(data))
    return path


FILES: dict[str, Callable[[Path], Path]] = {
    "liger": lambda folder: liger_file(folder / "all.csv", liger_line(), liger_line(x_value=128)),
    "nvbench": lambda folder: nvbench_file(folder / "nv.json"),
    "pytest-benchmark": lambda folder: pytest_benchmark_file(folder / "0001_x.json"),
}


def only_run(store: Store) -> tuple[Run, list[Result]]:
    (run,) = store.runs()
    return run, store.results([run.id])


def test_each_file_of_the_folder_is_a_format() -> None:
    folder = Path(importers.__file__).parent
    names = {path.stem.replace("_", "-") for path in folder.glob("*.py")} - {"--init--"}
    assert set(importers.importers()) == names == {*FILES, "report", "stepbench"}


def test_an_importer_is_one_file_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lines_of_seconds.py").write_text('''
"""A time in seconds on each line."""
from bench.store import foreign

def recognises(head):
    return head.startswith("seconds")

def read(source, intake):
    lines = list(source.text_lines())[1:]
    rows = [foreign.ForeignRow(f"line {n}", {"line": n, "text": line}, "toy", {"toy": "it"}, foreign.measured("time_s", "s", [float(line)]))
            for n, line in enumerate(lines, 2)]
    foreign.take_in(source, intake, foreign.Tool("lines-of-seconds", None, "How long?"), rows)
''')
    monkeypatch.setattr(importers, "__path__", [*importers.__path__, str(tmp_path)])
    (tmp_path / "a.txt").write_text("seconds\n1.5\n2.5\n")
    with Store.open(tmp_path / "bench.db") as store:
        store.import_file(tmp_path / "a.txt")
        assert [row.measurements[0].samples for row in only_run(store)[1]] == [(1.5,), (2.5,)]
    sys.modules.pop("bench.store.importers.lines_of_seconds")


@pytest.mark.parametrize("name", FILES)
def test_a_second_import_adds_nothing(store: Store, tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path)
    first = store.import_file(path)
    assert (first.results_same, first.conflicts) == (0, ())
    assert first.results_new > 0
    renamed = path.rename(path.with_name("another-name" + path.suffix))
    again = store.import_file(renamed, name)
    assert (again.runs_new, again.runs_same, again.results_new, again.results_same) == (0, 1, 0, first.results_new)
    assert store.check() == []


@pytest.mark.parametrize("name", FILES)
def test_an_imported_row_does_not_pose_as_ours(store: Store, tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path)
    store.import_file(path)
    run, rows = only_run(store)
    assert (run.reason, run.suite, run.suite_file) == ("import", f"imported:{name}", path.name)
    for row in rows:
        assert row.status is Status.OK
        assert row.case.workload.startswith(f"{name}:")
        assert row.environment.hard["measured_by"] == name
        assert row.environment.hard_hash != factories.result().environment.hard_hash
        assert (row.proof, row.checks, row.cost) == (None, (), None)
        assert row.method_version != METHOD_VERSION
        assert row.harness_version.startswith(f"{name} ")
        source = row.conditions["source"]
        assert source["file"] == path.name
        assert len(source["sha256"]) == 64
        assert source["place"]
        assert {"seed", "checks", "proof"} <= set(source["not_told"])
        assert (run.seed, row.seed) == (None, None)
        assert (row.duration_s is None) == ("duration_s" in source["not_told"])
    with pytest.raises(SelectionError, match="only what was measured here is published"):
        publish(store, [run], tmp_path / "published")


@pytest.mark.parametrize("name", FILES)
def test_an_imported_row_travels_like_any_other(store: Store, new_url: Callable[[], str], tmp_path: Path, name: str) -> None:
    store.import_file(FILES[name](tmp_path))
    store.export_jsonl(tmp_path / "out.jsonl")
    with Store.open(new_url()) as other:
        other.import_file(tmp_path / "out.jsonl")
        assert only_run(other) == only_run(store)
        assert other.import_file(FILES[name](tmp_path)).results_new == 0


def test_the_latest_run_is_one_that_was_measured_here(store: Store, tmp_path: Path) -> None:
    store.import_file(pytest_benchmark_file(tmp_path / "a.json", datetime="2999-01-02T04:04:05+00:00"))
    with pytest.raises(SelectionError, match="only what was imported from other tools: name one"):
        store.find_run("latest")
    ours = factories.run(id=new_id())
    store.add_run(ours)
    assert store.find_run("latest") == ours


def test_what_is_like_two_formats_or_none_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "empty").touch()
    with Store.open(tmp_path / "bench.db") as store:
        with pytest.raises(StoreError, match=r"no file that bench knows \(liger, nvbench, .*--format"):
            store.import_file(tmp_path / "a.txt")
        with pytest.raises(StoreError, match="empty"):
            store.import_file(tmp_path / "empty")
        with pytest.raises(StoreError, match="no importer 'asv': there are liger"):
            store.import_file(tmp_path / "a.txt", "asv")
        with pytest.raises(StoreError, match=r"is a database and no file of rows: bench db merge .*bench\.db takes in"):
            store.import_file(tmp_path / "bench.db")


# --- Liger-Kernel ----------------------------------------------------------------------------------------------------------------


def test_speed_and_memory_of_one_kernel_are_one_row(store: Store, tmp_path: Path) -> None:
    memory = liger_line(
        metric_name="memory", metric_unit="MB", y_value_50=3, y_value_20=3, y_value_80=3, timestamp="2025-01-02 03:09:00"
    )
    store.import_file(liger_file(tmp_path / "all.csv", liger_line(), liger_line(x_value=128), memory))
    run, (row, larger) = only_run(store)
    assert larger.case.params["T"] == 128
    case = row.case
    assert (case.workload, case.subject, case.pass_, case.dtype) == (
        "liger:swish",
        {"swish": "liger"},
        Pass.FORWARD_BACKWARD,
        "bf16",
    )
    assert case.params == {"H": 32, "T": 64, "operation_mode": "full"}
    assert (case.device, case.cache, case.timer) == ("cuda", "unknown", "liger")
    time_s, peak = row.measurements
    assert (time_s.metric, time_s.unit, time_s.samples) == ("time_s", "s", (2e-3,))
    assert time_s.note == "one number, the median of calls whose count is not told; 20 % 0.0015, 80 % 0.004"
    assert (peak.metric, peak.unit, peak.samples) == ("max_allocated_bytes", "byte", (3.0 * 2**20,))
    assert "20 % and 80 % are the same number: one sample, or samples without spread" in (peak.note or "")
    assert row.environment.hard == {"measured_by": "liger", "gpu_model": "NVIDIA Toy 1"}
    assert run.revision == (RevisionItem("liger-kernel", "package", "9.9.9"),)
    assert (run.started_at, row.started_at) == ("2025-01-02T03:04:05", "2025-01-02T03:04:05")
    assert row.conditions["source"]["place"] == "lines 2, 4"
    assert row.conditions["source"]["said"]["lines"][0]["y_value_50"] == "2.0"


def test_a_file_that_has_grown_adds_only_what_is_new(store: Store, tmp_path: Path) -> None:
    store.import_file(liger_file(tmp_path / "all.csv", liger_line()))
    report = store.import_file(liger_file(tmp_path / "all.csv", liger_line(), liger_line(x_value=128)))
    assert (report.runs_new, report.results_new, report.results_same) == (1, 1, 1)


def test_other_gpus_and_other_versions_are_other_runs(store: Store, tmp_path: Path) -> None:
    lines = [
        liger_line(),
        liger_line(gpu_name="NVIDIA Toy 2"),
        liger_line(liger_version="10.0.0"),
        liger_line(kernel_provider="torch"),
    ]
    store.import_file(liger_file(tmp_path / "all.csv", *lines))
    assert sorted(len(store.results([run.id])) for run in store.runs()) == [1, 1, 2]


def test_a_kernel_measured_twice_is_two_trials(store: Store, tmp_path: Path) -> None:
    store.import_file(liger_file(tmp_path / "all.csv", liger_line(), liger_line(y_value_50=2.5, timestamp="2025-02-02 03:04:05")))
    _, rows = only_run(store)
    assert [(row.trial.index, row.measurements[0].samples) for row in rows] == [(0, (2e-3,)), (1, (2.5e-3,))]


def test_lines_that_repeat_each_other_are_one_row(store: Store, tmp_path: Path) -> None:
    report = store.import_file(liger_file(tmp_path / "all.csv", liger_line(), liger_line(), liger_line(x_value=128)))
    assert (report.results_new, report.results_same) == (2, 1)


@pytest.mark.parametrize("told", ["nan", "inf", "", "OOM", "-1.0"])
def test_what_is_no_time_is_a_row_without_one(store: Store, tmp_path: Path, told: str) -> None:
    store.import_file(liger_file(tmp_path / "all.csv", liger_line(y_value_50=told)))
    _, (row,) = only_run(store)
    assert row.status is Status.INVALID
    assert row.reason == f"the source holds no number that can be one of speed: {told!r}"
    assert row.measurements == ()


def test_a_unit_of_time_that_is_not_known_is_named(store: Store, tmp_path: Path) -> None:
    report = store.import_file(liger_file(tmp_path / "all.csv", liger_line(metric_unit="parsec"), liger_line(x_value=128)))
    assert (report.results_new, report.results_new_not_ok) == (2, 1)
    _, (strange, known) = only_run(store)
    assert strange.status is Status.INVALID
    assert strange.reason == "its speed is in 'parsec', which is no time that is known here: s, ms, us"
    assert strange.measurements[0].metric == "liger:speed"
    assert known.status is Status.OK


def test_quantiles_that_do_not_enclose_the_median_are_told(store: Store, tmp_path: Path) -> None:
    store.import_file(liger_file(tmp_path / "all.csv", liger_line(y_value_20=9.9)))
    _, (row,) = only_run(store)
    assert row.status is Status.OK
    told = row.measurements[0].note or ""
    assert told.endswith("; 20 % 0.0099, 80 % 0.004, between which its median is not: the source contradicts itself")


def test_memory_without_a_time_is_kept_and_not_ok(store: Store, tmp_path: Path) -> None:
    store.import_file(liger_file(tmp_path / "all.csv", liger_line(metric_name="memory", metric_unit="MB")))
    _, (row,) = only_run(store)
    assert (row.status, row.measurements[0].metric) == (Status.INVALID, "max_allocated_bytes")
    assert "the source tells no time" in (row.reason or "")
    assert store.check() == []


def test_what_a_line_does_not_tell_is_unknown(store: Store, tmp_path: Path) -> None:
    bare = liger_line(
        kernel_operation_mode="",
        extra_benchmark_config_str="not json {",
        gpu_name="",
        timestamp="yesterday",
        liger_version="",
        x_value="tiny",
    )
    store.import_file(liger_file(tmp_path / "all.csv", bare))
    run, (row,) = only_run(store)
    assert (row.case.dtype, row.case.device, row.started_at, run.started_at, run.revision) == ("unknown", "unknown", "", "", ())
    assert row.environment.hard == {"measured_by": "liger", "pass": "not told"}
    assert row.case.params == {"extra_benchmark_config": "not json {", "T": "tiny"}
    assert {"pass", "dtype", "device", "started_at", "command"} <= set(row.conditions["source"]["not_told"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("y_value_50", "y"), "line 1: no line of column names: y_value_50 is missing"),
        (lambda text: text.replace("NVIDIA Toy 1,", ""), "line 2: 14 fields where the first line names 15 columns"),
        (lambda text: text.replace("swish", '"swish'), "line 2: not valid CSV"),
        (lambda text: text.splitlines()[0] + "\n", "line 1: the file holds no results"),
    ],
)
def test_a_csv_that_is_not_as_it_should_be_is_refused_whole(tmp_path: Path, change: Callable[[str], str], words: str) -> None:
    path = liger_file(tmp_path / "all.csv", liger_line())
    path.write_text(change(path.read_text()).replace("\r\n", "\n"))
    with Store.open(tmp_path / "bench.db") as store:
        with pytest.raises(StoreError, match=words):
            store.import_file(path, "liger")
        assert store.runs() == []


# --- pytest-benchmark ------------------------------------------------------------------------------------------------------------


def test_rounds_become_samples(store: Store, tmp_path: Path) -> None:
    store.import_file(pytest_benchmark_file(tmp_path / "a.json", stats={"data": [1e-6, 2e-6, 3e-6]}))
    run, (row,) = only_run(store)
    (time_s,) = row.measurements
    assert (time_s.samples, time_s.calls_per_sample, time_s.note) == ((1e-6, 2e-6, 3e-6), 5, None)
    assert (row.case.workload, row.case.subject) == ("pytest-benchmark:tests/test_sort.py::test_sort", {"test": "test_sort"})
    assert row.case.params == {"size": 10}
    assert row.environment.hard["cpu_model"] == "Toy CPU"
    assert row.duration_s == pytest.approx(3e-5)
    assert run.revision == (RevisionItem("sorting", "path", None, "abc123", True),)
    assert run.started_at == "2025-01-02T03:04:05+00:00"


def test_a_median_that_is_not_that_of_the_rounds_is_told(store: Store, tmp_path: Path) -> None:
    store.import_file(pytest_benchmark_file(tmp_path / "a.json", stats={"data": [1e-3] * 5, "median": 5.0}))
    _, (row,) = only_run(store)
    assert row.measurements[0].samples == (1e-3,) * 5
    assert (
        row.measurements[0].note
        == "the source contradicts itself: these are its rounds, and beside them it tells another: median 5"
    )


def test_statistics_without_rounds_are_one_number_that_says_so(store: Store, tmp_path: Path) -> None:
    store.import_file(pytest_benchmark_file(tmp_path / "a.json"))
    _, (row,) = only_run(store)
    (time_s,) = row.measurements
    assert time_s.samples == (2e-6,)
    assert time_s.note is not None
    assert time_s.note.startswith("one number, the median of 3 rounds; the rounds are not told: min 1e-06, max 3e-06, mean 2e-06")


def test_a_file_of_the_real_tool_is_read(store: Store, tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "test_toy.py").write_text(
        "def test_toy(benchmark):\n    benchmark.pedantic(sorted, args=([2, 1],), rounds=7, iterations=3)\n"
    )
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--benchmark-json={out}", "test_toy.py"]
    # Within a worker of xdist the tool measures nothing, and it looks at the environment to see whether it is in one.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    store.import_file(out)
    _, (row,) = only_run(store)
    assert (len(row.measurements[0].samples), row.measurements[0].calls_per_sample) == (7, 3)
    assert row.case.workload == "pytest-benchmark:test_toy.py::test_toy"


# --- nvbench ---------------------------------------------------------------------------------------------------------------------


def test_cold_and_batched_executions_are_rows_of_their_own(store: Store, tmp_path: Path) -> None:
    store.import_file(nvbench_file(tmp_path / "a.json"))
    run, (cold, batch) = only_run(store)
    assert (cold.case.cache, batch.case.cache) == ("cold", "warm")
    assert (cold.measurements[0].samples, batch.measurements[0].samples) == ((2e-3,), (1e-3,))
    assert cold.measurements[0].note == "one number, the mean of 50 executions; standard deviation 0.01 of it"
    assert (cold.measurements[0].calls_per_sample, batch.measurements[0].calls_per_sample) == (1, 80)
    assert cold.case.params == {"Size": 4096}
    assert cold.environment.hard["gpu_model"] == "Toy GPU 0"
    assert cold.environment.hard["gpu_memory_gib"] == 8
    assert (cold.duration_s, cold.command) == (0.5, "./toy --json 'a b.json'")
    assert run.options["source"]["said"]["meta"]["argv"] == ["./toy", "--json", "a b.json"]


def test_two_devices_are_two_runs(store: Store, tmp_path: Path) -> None:
    store.import_file(nvbench_file(tmp_path / "a.json", nvbench_state("Device=0"), nvbench_state("Device=1", device=1)))
    assert [len(store.results([run.id])) for run in store.runs()] == [2, 2]


def test_a_skipped_state_is_a_row_with_the_tools_reason(store: Store, tmp_path: Path) -> None:
    skipped = nvbench_state("Device=0", is_skipped=True, skip_reason="Input equals output.", summaries=None)
    store.import_file(nvbench_file(tmp_path / "a.json", skipped))
    _, (row,) = only_run(store)
    assert (row.status, row.reason) == (Status.UNSUPPORTED, "nvbench skipped it: Input equals output.")


def test_results_as_a_frame_tell_imported_rows_apart(tmp_path: Path) -> None:
    from bench import api

    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        ours = factories.run(id=new_id())
        store.add_run(ours)
        store.add_result(factories.result(ours.id))
        for make in FILES.values():
            store.import_file(make(tmp_path))
    frame = api.results(path)
    assert set(frame["workload"].str.partition(":")[0]) == {"attention", "liger", "nvbench", "pytest-benchmark"}
    assert frame["environment"].nunique() == 4
    assert not frame["median"].isna().any()


def test_formulas_and_steering_characters_come_in_as_text_and_nothing_more(store: Store, tmp_path: Path) -> None:
    evil = '=HYPERLINK("http://x")\x1b[2J\x00 \'); DROP TABLE result; --'
    store.import_file(liger_file(tmp_path / "all.csv", liger_line(kernel_provider=evil, kernel_name="@SUM(A1)")))
    _, (row,) = only_run(store)
    assert row.case.subject == {"@SUM(A1)": evil}
    assert math.isclose(row.measurements[0].samples[0], 2e-3)
    assert store.check() == []
    buffer = io.BytesIO()
    store.export_jsonl(buffer)
    assert b"\x1b" not in buffer.getvalue()
