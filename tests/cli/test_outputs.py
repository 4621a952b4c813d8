"""Where output goes: files that cannot be written, commands that name the database, labels, and mistakes told together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.cli import session as session_room
from bench.errors import StoreError
from bench.store import Store
from tests.cli.conftest import Bench, Filled

ROOT = Path(__file__).parent.parent.parent
SMALL = ["--profile", "cpu", "--filter", "seq_len=256", "--filter", "pass=forward", "--trials", "1", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suites").symlink_to(ROOT / "suites")
    return tmp_path


@pytest.mark.parametrize("command", [["report"], ["db", "export"]])
def test_a_file_that_cannot_be_written_is_one_clear_message(bench: Bench, filled: Filled, command: list[str]) -> None:
    (filled.path.parent / "FILE").write_text("here already")
    for target in ("/proc/nope/x.html", str(filled.path.parent / "FILE" / "x.html")):
        said = bench(*command, "-o", target, "--db", filled.path)
        assert said.code == 2
        assert f"{target} cannot be written" in said.err
        assert "Traceback" not in said.err
    assert {path.name for path in filled.path.parent.iterdir() if not path.name.startswith("results.db")} == {"FILE"}


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(bench: Bench, folder: Path) -> None:
    said = bench("run", "rms_norm", *SMALL, "--report", "/proc/nope/x.html")
    assert (said.code, "cannot be written" in said.err, "Traceback" in said.err) == (2, True, False)
    assert not (folder / "results").exists()


@pytest.mark.parametrize(("interrupted", "code"), [(True, 130), (False, 2)])
def test_a_report_that_fails_at_the_end_says_so_and_an_interrupt_stays_one(
    bench: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool, code: int
) -> None:
    def fails(self: session_room.Session) -> None:
        raise StoreError("x.html cannot be written: it is full")

    def stops(self: session_room.Session, *_: object, **__: object) -> None:
        self._interrupted = interrupted

    monkeypatch.setattr(session_room.Session, "_leave_report", fails)
    monkeypatch.setattr(session_room.Session, "measure", stops)
    said = bench("run", "rms_norm", *SMALL, "--report", "x.html")
    assert (said.code, "x.html cannot be written: it is full" in said.err) == (code, True)


def test_commands_that_are_printed_name_a_database_that_was_typed(
    bench: Bench, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = filled.results[0].id
    assert f"bench show {result} --db {filled.path}" in bench("show", "latest", "--db", filled.path).out
    monkeypatch.setenv("BENCH_DB", str(filled.path))
    assert bench("show", "latest").out.rstrip().endswith(f"bench show {result}")
    odd = filled.path.with_name("my results.db")
    filled.path.rename(odd)
    assert f"--db '{odd}'" in bench("show", "latest", "--db", odd).out


@pytest.mark.usefixtures("shared_server")
def test_what_to_type_after_a_run_names_the_database(bench: Bench, folder: Path) -> None:
    said = bench("run", "rms_norm", *SMALL, "--db", "mine.db")
    assert said.code == 0
    lines = [line for line in said.out.splitlines() if line.startswith("  bench ")]
    assert len(lines) == 2
    assert all("--db mine.db" in line for line in lines)


def test_a_run_that_went_to_another_device_shows_no_more_rows_than_trials(bench: Bench, filled: Filled) -> None:
    old = filled.results[0]
    with Store.open(filled.path) as store:
        store.exclude(old.id, "its block was begun on another device")
        store.add_result(dataclasses.replace(old, id="result-anew", trial=dataclasses.replace(old.trial, attempt=1)))
    assert "4/4" in bench("show", "--db", filled.path).out
    assert "4 of 4 planned trials have a row: 2 ok, 2 oom, 1 set aside" in bench("show", "latest", "--db", filled.path).out


def test_the_label_latest_is_refused(bench: Bench, folder: Path) -> None:
    said = bench("run", "rms_norm", *SMALL, "--label", "latest", "--dry-run")
    assert (said.code, "`latest`" in said.err) == (2, True)


def test_a_label_of_several_suites_ends_with_the_suite(bench: Bench, folder: Path) -> None:
    from bench.cli.planning import plan_all
    from bench.run import RunOptions

    options = RunOptions(profile="cpu", device="cpu", label="nightly")
    both = plan_all(["rms_norm", "attention"], options, "none.db")[2]
    assert [entry.options.label for entry in both] == [f"nightly ({entry.suite.name})" for entry in both]
    assert plan_all(["rms_norm"], options, "none.db")[2][0].options.label == "nightly"


def test_mistakes_of_filters_and_of_suites_are_told_in_one_message(bench: Bench, folder: Path) -> None:
    (folder / "bad.yaml").write_text("schema: 1\nname: bad\nnonsense: 3\n")
    said = bench(
        "run",
        "bad.yaml",
        "rms_norm",
        "--profile",
        "cpu",
        "--device",
        "cpu",
        "--dry-run",
        "--filter",
        "=",
        "--filter",
        "hidden_size=7",
    )
    assert said.code == 2
    for word in ("nonsense", "write axis=value", "no case has hidden_size=7"):
        assert word in said.err, word
