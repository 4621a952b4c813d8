"""Finds and ends every descendant of a process, those that called setsid or lost their parent included. Linux only.

A process group or a session reaches only who stayed in it, and launchers of ranks put theirs into new ones. What cannot be left is
the tree: where an ancestor is a *subreaper*, an orphan becomes that ancestor's child instead of init's, so the walk through
`/proc` from the subreaper always finds it.

The parent and the fork server both need this, and neither may import the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


@dataclass(frozen=True, slots=True)
class Process:
    """A process as `/proc` showed it. `born` (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    parent: int
    session: int
    born: int
    zombie: bool


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def adopt_orphans() -> None:
    """Makes this process a child subreaper: orphans below it become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """`adopt_orphans` for a while."""
    before = ctypes.c_int()
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(before))
    adopt_orphans()
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, before.value)


def die_with_parent() -> None:
    """Has the kernel send SIGKILL to this process when the thread that forked it ends. Survives exec, not fork."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def outlive_parent() -> None:
    """Takes `die_with_parent` back: from here on this process notices by itself, and ends in order."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def flush_c_streams() -> None:
    """Writes out what C code left in its stdio buffers; `os._exit` does not."""
    _libc().fflush(None)


def look_up(pid: int) -> Process | None:
    """The process with this pid now, or None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in brackets and may hold anything, brackets and spaces too: what follows the last bracket is regular.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, parent=int(fields[1]), session=int(fields[3]), born=int(fields[19]), zombie=fields[0] in (b"Z", b"X"))


def descendants(root: int) -> list[Process]:
    """Every process below `root`, nearest first, without `root`. Zombies are listed: their children are not theirs any more."""
    below: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := look_up(int(name))) is not None:
            below.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    generation = [root]
    while generation:
        next_generation = [process for pid in generation for process in below.get(pid, ())]
        found += next_generation
        generation = [process.pid for process in next_generation]
    return found


def send(process: Process, number: signal.Signals) -> None:
    """Signals exactly this process: never one that has since got its pid, and none where it is gone or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            now = look_up(process.pid)
            if now is not None and now.born == process.born:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def reap(pids: list[int]) -> None:
    """Collects those of `pids` that are our own dead children, without waiting."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


PATIENCE_S = 5.0


def end_all(
    find: Callable[[], list[Process]],
    *,
    grace_s: float,
    collect: Callable[[list[int]], None] = reap,
) -> list[int]:
    """TERM to all that `find` gives, KILL after `grace_s` (at once where that is 0), again and again until it gives none alive.

    `collect` is called with the pids of zombies. Returns the pids still alive after `PATIENCE_S` more: processes that not even the
    kernel can end (they wait for a device or a dead network disk).
    """
    began = time.monotonic()
    warned: set[int] = set()
    while True:
        processes = find()
        collect([process.pid for process in processes if process.zombie])
        alive = [process for process in processes if not process.zombie]
        waited = time.monotonic() - began
        if not alive or waited > grace_s + PATIENCE_S:
            return [process.pid for process in alive]
        for process in alive:
            if waited >= grace_s:
                send(process, signal.SIGKILL)
            elif process.pid not in warned:
                warned.add(process.pid)
                send(process, signal.SIGTERM)
        time.sleep(0.01)
