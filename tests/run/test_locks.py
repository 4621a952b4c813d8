"""One run per device at a time, whoever asks; the lock dies with its process."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from bench.errors import LockError
from bench.run.locks import device_lock, lock_path

_HOLD = (
    "import sys, time\n"
    "from bench.run.locks import device_lock\n"
    "with device_lock('cpu', run_id='run-1', command='bench run a.yaml'):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(float(sys.argv[1]))\n"
)


@pytest.fixture(autouse=True)
def _locks_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that somebody measures on this machine meanwhile must not make these tests wait, nor they it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def _holder(seconds: float) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(seconds)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_who_is_told_not_to_wait_gets_an_error_that_names_the_holder() -> None:
    with _holder(60) as process:
        expected = rf"process {process.pid} .*bench run a\.yaml \(run run-1\)"
        with pytest.raises(LockError, match=expected), device_lock("cpu", run_id="run-2", command="", wait=False):
            pass
        process.kill()


def test_who_waits_is_told_for_whom_and_goes_on_when_the_holder_is_killed() -> None:
    with _holder(60) as process:
        told: list[str] = []

        def waiting(text: str) -> None:
            told.append(text)
            threading.Timer(0.2, process.send_signal, [signal.SIGKILL]).start()

        with device_lock("cpu", run_id="run-2", command="", waiting=waiting) as held:
            assert held
            assert process.wait(10) == -signal.SIGKILL
    assert len(told) == 1
    assert "run run-1" in told[0]


def test_who_waits_stops_waiting_when_asked_to() -> None:
    with _holder(60) as process:
        with device_lock("cpu", run_id="run-2", command="", stop=lambda: True) as held:
            assert not held
        process.kill()


def test_devices_do_not_wait_for_each_other() -> None:
    with (
        device_lock("gpu-A", run_id="1", command="", wait=False) as one,
        device_lock("gpu-B", run_id="2", command="", wait=False) as two,
    ):
        assert one
        assert two


def test_a_child_process_does_not_keep_the_lock() -> None:
    with device_lock("cpu", run_id="1", command=""):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        with device_lock("cpu", run_id="2", command="", wait=False) as held:
            assert held
    finally:
        child.kill()
        child.wait()


def test_the_lock_file_may_be_written_by_every_user_and_its_folder_is_sticky() -> None:
    before = os.umask(0o077)
    try:
        with device_lock("gpu-../../x y", run_id="1", command=""):
            path = lock_path("gpu-../../x y")
            assert path.parent.name == "stepbench-locks"
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o1777
    finally:
        os.umask(before)


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path = lock_path("cpu")
    path.parent.mkdir()
    path.symlink_to(victim)
    with pytest.raises(LockError), device_lock("cpu", run_id="1", command=""):
        pass
    assert victim.read_text() == "mine"
