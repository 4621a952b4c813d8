"""The command runs as it would without us: its output, its status, its signals; what the probe stopped leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.audit.running import Ended, run_command
from bench.errors import BenchError
from bench.processes import look_up

PYTHON = sys.executable


def run(*command: str, stopped: bool = False, stdout: int | None = None) -> Ended:
    return run_command(command, os.environ, stdout=stdout, stopped=lambda: stopped)


def test_output_and_status_are_the_commands_own(capfd: pytest.CaptureFixture[str]) -> None:
    ended = run("sh", "-c", "printf 'out\\0put'; echo err >&2; exit 7")
    assert (ended.status, ended.signalled, ended.words) == (7, None, "exit status 7")
    assert capfd.readouterr() == ("out\0put", "err\n")


def test_its_standard_output_can_go_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("echo", "hello", stdout=2).status == 0
    assert capfd.readouterr() == ("", "hello\n")


def test_a_signal_that_ends_it_is_told_as_a_shell_does() -> None:
    ended = run("sh", "-c", "kill -SEGV $$")
    assert (ended.status, ended.words) == (128 + signal.SIGSEGV, "SIGSEGV")


def test_a_command_that_is_not_there_is_an_error_in_words() -> None:
    with pytest.raises(BenchError, match="no-such-command cannot be started: No such file"):
        run("no-such-command")


def test_it_gets_the_environment_and_hears_signals(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os, signal; print(os.environ['MARK'], signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set())"
    run_command((PYTHON, "-c", code), {**os.environ, "MARK": "seen"}, stopped=lambda: False)
    assert capfd.readouterr().out == "seen True\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_what_is_sent_to_us_alone_is_handed_on_once(number: signal.Signals) -> None:
    """By the command itself once it is ready, and in a process of its own: another thread of the tests' might hear the signal first."""
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got it; exit 5' {name}; echo ready; kill -{name} $PPID; while :; do sleep 0.05; done"
    code = (
        "import os, sys; from bench.audit.running import run_command; "
        "ended = run_command(('sh', '-c', sys.argv[1]), os.environ, stopped=lambda: False); print(ended.status, *map(int, ended.asked))"
    )
    done = subprocess.run([PYTHON, "-c", code, script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"ready\ngot it\n5 {int(number)}\n", "")


def _pid(path: Path) -> int:
    for _ in range(100):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


def test_what_the_probe_stopped_leaves_no_process_behind(tmp_path: Path) -> None:
    left = f"setsid sleep 300 & echo $! > {tmp_path / 'pid'}"
    ended = run("sh", "-c", left, stopped=True)
    assert ended.left_over == 1
    assert look_up(_pid(tmp_path / "pid")) is None


def test_what_a_script_that_ended_by_itself_leaves_is_left_alone(tmp_path: Path) -> None:
    ended = run("sh", "-c", f"setsid sleep 300 & echo $! > {tmp_path / 'pid'}")
    pid = _pid(tmp_path / "pid")
    assert ended.left_over == 0
    assert look_up(pid) is not None
    os.kill(pid, signal.SIGKILL)


def test_processes_that_were_ours_before_are_spared() -> None:
    mine = subprocess.Popen(["sleep", "300"])
    try:
        assert run("true", stopped=True).left_over == 0
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()
