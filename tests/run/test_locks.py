"""One run per device at a time, whoever asks; the lock dies with its process."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.errors import LockError
from bench.run.locks import StillHeldError, device_lock, device_locks, lock_path, run_is_alive, run_lock

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
    monkeypatch.setenv("BENCH_LOCK_DIR", str(tmp_path / "stepbench-locks"))


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
            assert process.wait(60) == -signal.SIGKILL
    assert len(told) == 1
    assert "run run-1" in told[0]


def test_who_waits_stops_waiting_when_asked_to() -> None:
    with _holder(60) as process:
        with device_lock("cpu", run_id="run-2", command="", stop=lambda: True) as held:
            assert not held
        process.kill()


def test_who_has_no_more_time_to_wait_is_told_who_held_it_all_the_while() -> None:
    with device_lock("gpu-B", run_id="run-1", command="bench run a.yaml"):
        told: list[str] = []
        late = lambda: len(told) > 0  # noqa: E731 - no later than it was said for whom
        for lock in (
            device_lock("gpu-B", run_id="2", command="", waiting=told.append, late=late),
            device_locks(["gpu-A", "gpu-B"], run_id="2", command="", waiting=told.append, late=late),
        ):
            told.clear()
            with pytest.raises(StillHeldError, match=rf"gpu-B was held .* process {os.getpid()} .*a\.yaml"), lock:
                pass
            assert len(told) == 1


def test_what_cannot_be_a_folder_of_locks_is_told_with_what_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to remove below a file; a folder in a lock's place can be removed."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BENCH_LOCK_DIR", str(tmp_path / "file"))
    with pytest.raises(LockError, match="; set BENCH_LOCK_DIR to a folder") as raised, device_lock("cpu", run_id="1", command=""):
        pass
    assert "remove" not in str(raised.value)
    monkeypatch.setenv("BENCH_LOCK_DIR", str(tmp_path / "locks"))
    lock_path("cpu").mkdir(parents=True)
    with pytest.raises(LockError, match=rf"remove {lock_path('cpu')}, or set"), device_lock("cpu", run_id="1", command=""):
        pass


def test_devices_do_not_wait_for_each_other() -> None:
    with (
        device_lock("gpu-A", run_id="1", command="", wait=False) as one,
        device_lock("gpu-B", run_id="2", command="", wait=False) as two,
    ):
        assert one
        assert two


def test_nobody_waits_for_himself_nor_two_who_count_the_gpus_in_another_order_for_each_other() -> None:
    with device_locks(["gpu-B", "gpu-A", "gpu-B"], run_id="1", command="", wait=False) as held:
        assert held
    # Both ask for A first, so who holds B alone keeps the other one from holding A and waiting.
    told: list[str] = []
    with (
        device_lock("gpu-A", run_id="1", command=""),
        device_locks(["gpu-B", "gpu-A"], run_id="2", command="", waiting=told.append, stop=lambda: True) as held,
        device_lock("gpu-B", run_id="3", command="", wait=False) as free,
    ):
        assert (held, free) == (False, True)
        assert told[0].startswith("waiting for gpu-A")


def test_a_child_process_does_not_keep_the_lock() -> None:
    with device_lock("cpu", run_id="1", command=""):
        code = "import time; print('here', flush=True); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code], close_fds=False, stdout=subprocess.PIPE)
        # The kernel closes what is to be closed a moment after the new program has taken over.
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
    try:
        with device_lock("cpu", run_id="2", command="", wait=False) as held:
            assert held
    finally:
        child.kill()
        child.communicate()


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


def test_locks_lie_where_all_users_write_whatever_tmpdir_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_LOCK_DIR")
    before = lock_path("cpu")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lock_path("cpu") == before
    assert before.parent.parent.stat().st_mode & 0o1002 == 0o1002
    closed, shared = tmp_path / "closed", tmp_path / "shared"
    for folder, mode in ((closed, 0o755), (shared, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    monkeypatch.setattr("bench.run.locks._PLACES", (str(tmp_path / "absent"), str(closed), str(shared)))
    assert lock_path("cpu") == shared / "stepbench-locks" / "cpu.lock"


def test_a_run_is_one_process_at_a_time_on_whatever_device_and_its_lock_leaves_no_file() -> None:
    assert not run_is_alive("run-1")
    with run_lock("run-1", command="bench run a.yaml") as held:
        assert held
        assert run_is_alive("run-1")
        with pytest.raises(LockError, match=r"a\.yaml"), run_lock("run-1", command="", wait=False):
            pass
        with run_lock("run-2", command="", wait=False) as other:
            assert other
    assert not run_is_alive("run-1")
    assert list(lock_path("x").parent.iterdir()) == []


def test_who_waits_for_a_run_gets_it_though_its_holder_removes_the_lock_file() -> None:
    order: list[str] = []
    with contextlib.ExitStack() as first:
        first.enter_context(run_lock("run-1", command=""))

        def let_go(_text: str) -> None:
            order.append("waits")
            first.close()

        with run_lock("run-1", command="", waiting=let_go) as held:
            order.append(f"holds {held}")
            assert run_is_alive("run-1")
    assert order == ["waits", "holds True"]
