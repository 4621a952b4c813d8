"""Every descendant is found and ended, wherever it fled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from bench.processes import Process, adopting_orphans, descendants, end_all, look_up, send

_FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
time.sleep(600)
"""


def test_a_family_that_ignores_term_and_fled_into_new_sessions_is_ended_orphans_included() -> None:
    # A server that other tests of this process share is below us, too, and forks.
    others = {process.pid for process in descendants(os.getpid())}

    def others_than_those_before() -> list[Process]:
        found = []
        for process in descendants(os.getpid()):
            if process.pid in others or process.parent in others:
                others.add(process.pid)
            else:
                found.append(process)
        return found

    with adopting_orphans():
        child = subprocess.Popen([sys.executable, "-c", _FAMILY])
        while len({process.session for process in descendants(child.pid)}) < 2:
            time.sleep(0.01)
        family = [child.pid, *(process.pid for process in descendants(child.pid))]
        assert end_all(others_than_those_before, grace_s=0.1) == []
        assert [pid for pid in family if (found := look_up(pid)) is not None and not found.zombie] == []
        child.wait()


def test_who_ends_at_term_is_not_killed() -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); print('up', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()

    def find() -> list[Process]:
        found = look_up(child.pid)
        return [] if found is None or found.zombie else [found]

    assert end_all(find, grace_s=30.0, collect=lambda _pids: None) == []
    assert child.wait() == 5
    child.stdout.close()


def test_a_later_process_with_the_same_pid_is_not_signalled() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    real = look_up(child.pid)
    assert real is not None
    send(Process(real.pid, real.parent, real.session, real.born - 1, zombie=False), signal.SIGKILL)
    time.sleep(0.1)
    assert child.poll() is None
    send(real, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("pid", [2**22 + 1, 0])
def test_a_process_that_is_not_there_is_none(pid: int) -> None:
    assert look_up(pid) is None
