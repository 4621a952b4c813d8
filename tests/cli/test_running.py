"""`bench run`, `rerun` and `--resume` with real processes, and a secret that must not come through."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.session import _say_summary
from bench.errors import StoreError
from bench.machine import find_device
from bench.records import Result, RunState
from bench.run import RunSummary
from bench.store import Store
from tests.cli.conftest import Bench, Filled

ROOT = Path(__file__).parent.parent.parent
SMALL = ["--profile", "cpu", "--filter", "seq_len=256", "--filter", "pass=forward", "--trials", "1", "--device", "cpu"]
TOKEN = "sesame-open-8d1f"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suites").symlink_to(ROOT / "suites")


def typed(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`bench` as a process of its own."""
    command = [sys.executable, "-m", "bench", *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, capture_output=True, text=True, check=False
    )


def test_a_dry_run_says_cases_trials_and_minutes_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    said = bench("run", "rms_norm", "--profile", "cpu", "--dry-run", "--device", "cpu")
    assert said.code == 0
    assert "8 cases, 24 trials in 4 blocks, about " in said.out
    assert not (tmp_path / "results").exists()
    data = json.loads(bench("run", "rms_norm", "--profile", "cpu", "--dry-run", "--device", "cpu", "--json").out)
    assert data["suites"][0]["trials"] == 24


def test_a_resumed_run_that_lacked_nothing_says_so_instead_of_all_its_rows(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(filled.path) as store:
        store.finish_run(filled.run.id, RunState.FINISHED, filled.run.started_at)
        _say_summary(store, RunSummary(filled.run.id, RunState.FINISHED, 4, {}, before=4))
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith(f"run {filled.run.id}: nothing was left to measure; bench report")


def test_a_dry_run_counts_what_is_not_measured_here_with_the_reason(bench: Bench) -> None:
    said = bench("run", "attention", "--profile", "cpu", "--dry-run", "--device", "cpu", "--filter", "attention=eager,flash_attn2")
    assert "flash_attn2 runs on cuda, not on cpu" in said.out
    assert "get a row without being started" in said.out


def test_all_gpus_of_a_host_with_one_are_that_device(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.run.find_gpus", lambda text: (find_device("cpu"),))
    said = bench("run", "rms_norm", "--profile", "cpu", "--dry-run", "--gpus", "all")
    assert said == bench("run", "rms_norm", "--profile", "cpu", "--dry-run", "--device", "cpu")


def test_a_case_that_is_not_started_costs_no_minutes(bench: Bench) -> None:
    said = bench(
        "run", "attention", "--profile", "cpu", "--dry-run", "--device", "cpu", "--filter", "attention=flash_attn2", "--json"
    )
    assert json.loads(said.out)["suites"][0]["estimated_s"] == 0


@pytest.mark.usefixtures("shared_server")
def test_a_run_that_breaks_off_is_in_the_report_with_the_rows_that_it_has(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_result = Store.add_result
    stored: list[str] = []

    def breaks(self: Store, result: Result) -> bool:
        if stored:
            raise StoreError("the disk is full")
        stored.append(result.id)
        return add_result(self, result)

    monkeypatch.setattr(Store, "add_result", breaks)
    said = bench("run", "rms_norm", *SMALL, "--report", "r.html")
    assert said.code == 2
    assert "the disk is full" in said.err
    assert "a report of what was measured before the error: r.html" in said.err
    assert stored[0] in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which suite"),
        (["atention"], "atention"),
        (["suites/atention.yaml"], "suites/attention.yaml"),
        (["rms_norm", "--profile", "cpuu"], "cpu"),
        (["rms_norm", "--filter", "rms_norm=eagr"], "eager"),
        (["rms_norm", "--set", "sequence=3"], "sequence"),
        (["rms_norm", "--budget", "20"], "90s, 20m"),
        (["rms_norm", "--shard", "3/2"], "I from 1 to N"),
        (["rms_norm", "--trials", "0"], "1<=x<=10000"),
        (["rms_norm", "--device", "tpu"], "auto, cuda, cuda:N or cpu"),
        (["rms_norm", "--resume", "latest"], "leave out SUITE"),
        (["rms_norm", "--gpus", "0,99"], "was asked for"),
        (["rms_norm", "--gpus", "two"], "takes `all`, or numbers with commas between"),
        (["rms_norm", "--gpus", "all", "--device", "cuda"], "leave one out"),
    ],
)
def test_a_mistake_is_one_clear_message_before_anything_is_measured(
    bench: Bench, tmp_path: Path, arguments: list[str], words: str
) -> None:
    said = bench("run", *arguments)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "results").exists()


def test_the_mistakes_of_several_files_come_together(bench: Bench, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"schema: 1\nname: {name}\nworkloud: attention\n")
    said = bench("run", "one.yaml", "two.yaml")
    assert "one.yaml:3" in said.err
    assert "two.yaml:3" in said.err


@pytest.mark.usefixtures("shared_server")
def test_a_run_says_plan_progress_result_and_what_to_type_next_and_can_be_read_again(bench: Bench, tmp_path: Path) -> None:
    said = bench("run", "rms_norm", *SMALL, "--report", "r.html", "--label", "first")
    assert said.code == 0, said.err
    for words in ("2 cases, 2 trials in 1 block", "fastest measured", "2 ok", "bench report ", "bench show ", "report: r.html"):
        assert words in said.out, words
    assert "[1/2, " in said.err
    assert "[2/2, done]" in said.err
    assert "<html" in (tmp_path / "r.html").read_text()
    with Store.open("results/bench.db") as store:
        run = store.find_run("first")
        row = store.results([run.id])[0]
    assert bench("show", row.id).code == 0

    again = bench("rerun", row.id, "--trials", "1")
    assert again.code == 0, again.err
    assert "new / old" in again.out
    assert "time_s" in again.out

    # The command of a row, typed by a stranger, plans exactly that case.
    words = row.command.split()
    assert words[:2] == ["bench", "run"]
    plan = json.loads(bench(*words[1:], "--dry-run", "--json").out)
    assert (plan["suites"][0]["cases"], plan["suites"][0]["trials"]) == (1, 1)


def test_a_run_without_one_ok_row_exits_with_3(bench: Bench) -> None:
    said = bench("run", "attention", "--profile", "cpu", "--filter", "attention=flash_attn2", "--trials", "1", "--device", "cpu")
    assert said.code == 3, said.err
    assert "unsupported" in said.out


@pytest.mark.slow
def test_ctrl_c_stores_what_was_measured_renders_the_report_exits_130_and_can_be_resumed(tmp_path: Path) -> None:
    """And of the run that goes on, as one with `--json`, that is the only output on stdout."""
    command = [
        sys.executable,
        "-m",
        "bench",
        "run",
        "rms_norm",
        "--profile",
        "cpu",
        "--device",
        "cpu",
        "--trials",
        "2",
        "--report",
        "r.html",
    ]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    seen = ""
    while " 2/16" not in seen:
        line = process.stderr.readline()
        assert line, f"it ended too early: {seen}"
        seen += line
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "goes on" in out
    assert "<html" in (tmp_path / "r.html").read_text()
    with Store.open("results/bench.db") as store:
        before = len(store.results([store.find_run("latest").id]))
    resumed = typed("run", "--resume", "latest", "--report", "whole.md", "--json")
    assert resumed.returncode == 0, resumed.stderr
    (told,) = json.loads(resumed.stdout)["runs"]
    assert (told["rows"], told["state"]) == ({"ok": 16 - before}, "finished")
    with Store.open("results/bench.db") as store:
        run = store.find_run("latest")
        rows = store.results([run.id])
    assert len(told["cases"]) == len({row.case.key for row in rows[before:]})
    assert len(rows) == run.planned_trials == 16
    assert len({(row.case.key, row.trial.index) for row in rows}) == 16
    assert (tmp_path / "whole.md").exists()


@pytest.mark.usefixtures("shared_server")
def test_a_budget_is_for_all_suites_together(bench: Bench) -> None:
    said = bench("run", "rms_norm", "attention", "--profile", "cpu", "--trials", "1", "--device", "cpu", "--budget", "0.1s")
    assert said.code == 0, said.err
    assert "the budget is spent; not begun: attention" in said.err


LEAKY = """
import os
from bench.declare import implementation

@implementation(workload="rms_norm")
def leaky_print(spec):
    print("printed", os.environ["HF_TOKEN"], flush=True)
    return lambda module: module

@implementation(workload="rms_norm")
def leaky_raise(spec):
    raise RuntimeError("raised " + os.environ["HF_TOKEN"])

@implementation(workload="rms_norm")
def leaky_refuse(spec):
    from bench.declare import Unsupported
    raise Unsupported("refused " + os.environ["HF_TOKEN"])
"""


def test_a_planted_token_is_found_nowhere(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY)
    said = typed(
        "run", "rms_norm", *SMALL, "--plugin", "leaky.py", "--set", "subjects.rms_norm=[eager,leaky_print,leaky_raise,leaky_refuse]",
        "--report", "r.html", "--label", f"with {TOKEN}",
        HF_TOKEN=TOKEN, NCCL_DEBUG=TOKEN, BENCH_DB="results/bench.db",
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert TOKEN not in said.stdout + said.stderr
    for name in ("x.jsonl.gz", "r.csv", "r.md", "r.json"):
        answer = bench("db", "export", "-o", name) if "jsonl" in name else bench("report", "-o", name)
        assert answer.code == 0, answer.err
    with gzip.open("x.jsonl.gz", "rt") as file:
        exported = file.read()
    assert "printed [secret]" in exported
    assert "raised [secret]" in exported
    assert "refused [secret]" in exported
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink() and ROOT not in path.resolve().parents:
            content = path.read_bytes()
            text = gzip.decompress(content) if path.suffix == ".gz" else content
            assert TOKEN.encode() not in text, path
