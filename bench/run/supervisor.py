"""Watches one trial from its request to its end: time-out, size of its log, a rank that has failed, death of the server, Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bench.records import trial_folder
from bench.run.forkserver import Ended, ForkServer
from bench.run.oom import oom_kills
from bench.run.traces import LOG_LIMIT_BYTES, failed_ranks, gone_ranks, log_bytes

_LOOK_EVERY_S = 0.1
_GRACE_S = 1.0
"""Between TERM and KILL: time for a launcher to end its ranks."""
RANK_GRACE_S = 5.0
"""For the other ranks once one has failed, to come to an answer of their own: over NCCL they would wait for it without an end."""


class End(StrEnum):
    """Why a trial's process ended."""

    BY_ITSELF = "by_itself"
    TIMEOUT = "timeout"
    FLOOD = "flood"
    INTERRUPT = "interrupt"
    RANK_FAILED = "rank_failed"
    """A rank said that it had failed, or left without a word, and others did not end within `RANK_GRACE_S`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a trial's process. `requested` and `ended` are moments of the monotonic clock."""

    end: End
    ended_as: Ended
    requested: float
    ended: float
    oom_killed: bool = False
    """The kernel killed some process for memory meanwhile."""
    gone: tuple[int, ...] = ()
    """Ranks that had left without a word when the others were ended for it."""


def watch(
    server: ForkServer,
    directory: Path,
    *,
    world_size: int,
    timeout_s: float,
    stop: Callable[[], bool],
    variables: Mapping[str, str] | None = None,
    once_begun: Callable[[], None] = lambda: None,
) -> Outcome:
    """Starts the trial of `directory` and returns when nothing of it lives. `stop` is asked ten times a second.

    `variables` join the environment of this trial alone. `once_begun` is called when its process has been forked; the trial does not
    take its device before that has returned, and its time-out does not hold what that takes.

    Raises ServerDied where the server ends meanwhile; all processes of the trial are ended then, too. What `once_begun` raises goes
    through, and leaves the trial to whoever closes the server.
    """
    kills_before = oom_kills()
    requested = time.monotonic()
    with _gate(directory):
        server.begin(directory, world_size, variables)
        requested += server.prepared_s  # is neither in the trial's time-out nor among its costs
        begun = time.monotonic()
        once_begun()
        timeout_s += time.monotonic() - begun
        if stop():  # since we looked last: a short trial would be over before we look again
            return Outcome(End.INTERRUPT, server.end_trial(_GRACE_S), requested, time.monotonic())
    end = End.BY_ITSELF
    rank_failed: float | None = None
    gone: tuple[int, ...] = ()
    while True:
        left_s = requested + timeout_s - time.monotonic()
        ended_as = server.wait(min(_LOOK_EVERY_S, max(0.0, left_s)))
        if ended_as is not None:
            break
        if stop():
            end = End.INTERRUPT
        elif left_s <= 0:
            end = End.TIMEOUT
        elif log_bytes(directory) > LOG_LIMIT_BYTES:
            end = End.FLOOD
        elif world_size > 1:
            gone = gone_ranks(directory, world_size)
            if not gone and not failed_ranks(directory, world_size):
                rank_failed = None  # it has replied since, or was only about to lock its file
            elif rank_failed is None:
                rank_failed = time.monotonic()
            elif time.monotonic() - rank_failed > RANK_GRACE_S:
                end = End.RANK_FAILED
        if end is not End.BY_ITSELF:
            ended_as = server.end_trial(_GRACE_S)
            break
    ended = time.monotonic()
    return Outcome(end, ended_as, requested, ended, oom_killed=oom_kills() > kills_before, gone=gone)


@contextlib.contextmanager
def _gate(directory: Path) -> Iterator[None]:
    """Keeps the gate of a trial closed. It opens, too, where this process dies."""
    file = os.open(directory / trial_folder.GATE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
