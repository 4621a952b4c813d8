"""Runs somebody's command as it would run without us: its output is not touched, signals reach it once, its exit status is passed on.

It is started with its own arguments, streams and terminal, and a changed environment only. Ctrl-C of a terminal reaches it directly, since
it stays in our process group; what somebody sends to us alone is handed on. We end when it has ended, never before, and whatever the probe
stopped with it (ranks, loaders of data) is ended too.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.errors import BenchError
from bench.processes import Process, adopting_orphans, descendants, end_all

FROM_THE_KERNEL = 0x80
"""`si_code` of a signal that a terminal's key sent to every process in its foreground group."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""The last two are how a cluster's scheduler tells a job that its time is over."""
GRACE_S = 5.0
BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a command."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended."""

    status: int
    """As a shell tells it: the exit status, or 128 and the number of the signal."""
    signalled: int | None
    """The signal that ended it."""
    asked: tuple[int, ...] = ()
    """Signals that came for us or from the terminal meanwhile."""
    left_over: int = 0
    """Processes that outlived it and were ended."""

    @property
    def words(self) -> str:
        """`exit status 3`, `SIGSEGV`."""
        return f"exit status {self.status}" if self.signalled is None else signal.Signals(self.signalled).name


def run_command(
    command: Sequence[str], variables: Mapping[str, str], *, stdout: int | None = None, stopped: Callable[[], bool]
) -> Ended:
    """Starts `command` with the environment `variables` and waits for its end.

    Args:
        stdout: a file descriptor for the command's standard output instead of ours.
        stopped: asked after its end, whether the probe stopped it; only then its descendants are ended as well.

    Raises BenchError where the command cannot be started. Must be called in the main thread.
    """
    ours = {(one.pid, one.born) for one in descendants(os.getpid())}
    heard = {number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN} | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    try:
        with adopting_orphans():
            try:
                process = subprocess.Popen(
                    list(command),
                    env=dict(variables),
                    stdout=stdout,
                    # One thread runs here, and a mask that a child inherits would make it deaf.
                    preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
                )
            except OSError as error:
                raise BenchError(f"{command[0]} cannot be started: {error.strerror or error}. Nothing was audited") from error
            asked = _wait(process, heard)
            left = 0
            if stopped():
                left = len([one for one in _below(ours) if not one.zombie])
                end_all(lambda: _below(ours), grace_s=GRACE_S)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = process.returncode
    return Ended(code if code >= 0 else BY_SIGNAL - code, None if code >= 0 else -code, asked, left)


def _wait(process: subprocess.Popen[bytes], heard: set[signal.Signals]) -> tuple[int, ...]:
    """Until the process has ended; the signals that came meanwhile."""
    asked: list[int] = []
    while process.poll() is None:
        # A child may have ended between the look and the wait, when its signal is pending already.
        found = signal.sigtimedwait(heard, 1.0)
        if found is None or found.si_signo == signal.SIGCHLD:
            continue
        asked.append(found.si_signo)
        if found.si_code != FROM_THE_KERNEL:
            process.send_signal(found.si_signo)
    return tuple(asked)


def _below(ours: set[tuple[int, int]]) -> list[Process]:
    """Our descendants but for those that were there before, and for what these started."""
    spared = {pid for pid, _ in ours}
    found = []
    for one in descendants(os.getpid()):
        if (one.pid, one.born) in ours or one.parent in spared:
            spared.add(one.pid)
        else:
            found.append(one)
    return found
