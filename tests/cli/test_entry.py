"""Exit codes and messages, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __version__
from bench.cli import main
from bench.errors import BenchError, HarnessError
from tests.cli.conftest import Bench, Filled

ROOT = Path(__file__).parent.parent.parent


def test_help_names_every_command_and_the_exit_codes(bench: Bench) -> None:
    said = bench("--help")
    assert said.code == 0
    for word in ("run", "list", "show", "rerun", "report", "db", "schema", "Exit codes"):
        assert word in said.out


def test_without_a_command_it_shows_the_help_and_fails(bench: Bench) -> None:
    said = bench()
    assert said.code == 2
    assert "Usage: bench" in said.out + said.err


def test_the_version(bench: Bench) -> None:
    assert bench("--version").out.strip() == f"bench, version {__version__}"


def test_a_mistyped_command_option_or_value_is_answered_with_the_nearest_one(bench: Bench) -> None:
    command = bench("lsit")
    assert (command.code, "Did you mean 'list'?" in command.err) == (2, True)
    option = bench("list", "--jsn")
    assert (option.code, "Did you mean '--json'?" in option.err) == (2, True)
    value = bench("list", "modles")
    assert (value.code, "'models'" in value.err) == (2, True)


def _failing_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    from bench.cli.schema import schema

    def fail() -> None:
        raise error

    monkeypatch.setattr(schema, "callback", fail)


def test_what_a_user_can_fix_is_a_message_without_a_traceback(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing_with(monkeypatch, BenchError("the suite has no name\nadd one"))
    said = bench("schema")
    assert (said.code, said.err) == (2, "bench: the suite has no name\nadd one\n")


@pytest.mark.parametrize("error", [HarnessError("the server said nonsense"), KeyError("x"), RecursionError()])
def test_our_own_bug_is_a_traceback_that_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    _failing_with(monkeypatch, error)
    said = bench("schema")
    assert said.code == 2
    assert "Traceback" in said.err
    assert "this is a bug in bench" in said.err


def test_an_interrupted_command_ends_with_130(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing_with(monkeypatch, KeyboardInterrupt())
    assert bench("schema").code == 130


def test_an_interruption_before_the_command_is_found_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.cli import terminal

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "speak_any_locale", interrupted)
    assert main(["schema"]) == 130
    assert capsys.readouterr().err == "bench: interrupted\n"


def test_a_folder_without_suites_says_where_to_go(bench: Bench, tmp_path: Path) -> None:
    said = bench("list", "suites", "--suites", tmp_path)
    assert (said.code, said.out) == (0, f"no suites in {tmp_path}/: go to the folder of stepbench, or name one with --suites DIR\n")
    assert json.loads(bench("list", "suites", "--suites", tmp_path, "--json").out) == []


def test_a_message_shows_neither_secrets_nor_control_characters(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "sesame-open-123")
    _failing_with(monkeypatch, BenchError("sesame-open-123 at postgresql://u:hunter2@h/db \x1b[2Jx"))
    said = bench("schema")
    assert said.err == "bench: [secret] at postgresql://u:[secret]@h/db \\x1b[2Jx\n"


def test_a_reader_that_goes_away_is_no_error_and_no_exit_code_one() -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen([sys.executable, "-m", "bench", "list", "metrics"], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE)
    os.close(reading)
    os.close(writing)
    _, err = process.communicate()
    assert process.returncode == 141
    assert err == b""


def test_python_m_bench_is_bench(filled: Filled) -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "--version"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert __version__ in done.stdout


def test_a_missing_database_is_a_message_that_says_what_makes_one(bench: Bench, tmp_path: Path) -> None:
    for command in (("show", "latest"), ("report",), ("db", "check"), ("rerun", "x"), ("run", "--resume", "latest")):
        said = bench(*command, "--db", tmp_path / "none.db")
        assert said.code == 2, command
        assert "none.db" in said.err
        assert "Traceback" not in said.err
        assert not (tmp_path / "none.db").exists()


def test_the_database_can_be_named_by_a_variable(bench: Bench, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DB", str(filled.path))
    assert bench("show", "latest").code == 0


def test_main_does_not_change_how_signals_are_handled() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert main(["--version"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("arguments", [["list", "models"], ["list", "models", "--json"], ["shw"]])
def test_closed_output_changes_no_exit_code(arguments: list[str]) -> None:
    for closed in (">&-", ">&- 2>&-"):
        ended = subprocess.run(
            ["sh", "-c", f'"$0" -m bench "$@" {closed}', sys.executable, *arguments], capture_output=True, check=False
        )
        assert ended.returncode == (2 if arguments == ["shw"] else 0), ended.stderr
        assert b"Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_onto_a_full_disk_is_a_message_and_no_bug(filled: Filled) -> None:
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "bench", "show", "latest", "--db", str(filled.path), *options]
        with open("/dev/full", "w") as full:
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (ended.returncode, "standard output cannot be written (No space left on device)" in ended.stderr) == (2, True)
        assert "Traceback" not in ended.stderr
