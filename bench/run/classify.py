"""Turns the end of a trial's process, and what it left on disk, into a status with a reason."""

from __future__ import annotations

import dataclasses
import errno
import re
import signal
from pathlib import Path

from bench.errors import HarnessError
from bench.machine import scrub
from bench.records import Reply, Status
from bench.run import ranks
from bench.run.folders import FolderError
from bench.run.supervisor import End, Outcome
from bench.run.traces import (
    LOG_LIMIT_BYTES,
    Phase,
    read_failures,
    read_harness_error,
    read_phases,
    read_reply,
    stored_log,
)

HANDOVER = "handover"
"""The subject's first phase: what ends before it is our bug."""


HARNESS_EXIT = 70
"""The status of a trial's process in which our own code failed; a full disk may keep even the reason from being written."""


_NO_ROOM = re.compile(rf"^OSError: \[Errno ({errno.ENOSPC}|{errno.EDQUOT})\] .*\Z", re.MULTILINE)
"""Python's last line of an error that says that a disk, or what a user may have of it, is full."""


class KilledEarly(Exception):
    """Somebody sent SIGKILL before the subject took over: nobody's fault here, worth a second try."""


def classify(outcome: Outcome, directory: Path, *, world_size: int, timeout_s: float) -> ranks.Answer:
    """The answer of a trial that was not interrupted.

    Raises HarnessError where it ended before the subject took over, FolderError where the folder took no more of what we write there.
    """
    # An empty one: there was no room for its words. How the process ended says so too.
    if text := read_harness_error(directory):
        if full := _NO_ROOM.search(text.rstrip()):
            raise FolderError(_no_more(directory, full.group().removeprefix("OSError: ")))
        raise HarnessError(f"our own code failed in the trial's process:\n{text}")
    if outcome.ended_as.returncode == HARNESS_EXIT:
        raise FolderError(_no_more(directory, "a trial could not even say why it failed"))
    if world_size > 1:
        return _of_ranks(outcome, directory, world_size, timeout_s)
    phases = read_phases(directory)
    reply = read_reply(directory)
    if reply is None:
        reply = _without_reply(outcome, outcome.ended_as.returncode, phases, directory, timeout_s)
    elif reply.status is not Status.OK:
        _demand_handover(phases, reply.phase, reply.reason or "")
    return ranks.Answer(reply, None, phases)


def _no_more(directory: Path, why: str) -> str:
    said = stored_log(directory)[-4096:]
    return f"{directory.parent} may be full: {why}. Make room there, or set TMPDIR to another place.\n{said}".rstrip()


def _demand_handover(phases: tuple[Phase, ...], phase: str | None, what: str) -> None:
    if not any(reached.name == HANDOVER for reached in phases):
        raise HarnessError(f"before the subject took over (phase {phase or 'none'}): {what}")


def _without_reply(
    outcome: Outcome, returncode: int, phases: tuple[Phase, ...], directory: Path, timeout_s: float, who: str = "it"
) -> Reply:
    phase = phases[-1].name if phases else None
    where = f"in phase {phase}"
    if outcome.end is End.TIMEOUT:
        status, reason = Status.TIMEOUT, f"no answer within {timeout_s:g} s; {who} was {where}"
    elif outcome.end is End.FLOOD:
        status, reason = Status.FAILED, f"wrote more than {LOG_LIMIT_BYTES // 2**20} MiB to its log; {who} was {where}"
    elif returncode >= 0:
        status, reason = Status.CRASHED, f"ended with status {returncode} {where} without a reply"
    else:
        name = signal_name(-returncode)
        status, reason = Status.CRASHED, f"killed by {name} {where}"
        if name == "SIGKILL" and outcome.oom_killed:
            status, reason = Status.OOM, f"the kernel killed it for memory {where}"
        elif name == "SIGABRT" and "std::bad_alloc" in stored_log(directory)[-65536:]:
            status, reason = Status.OOM, f"a library could not allocate memory (std::bad_alloc) {where}"
        elif name == "SIGKILL" and not any(reached.name == HANDOVER for reached in phases):
            raise KilledEarly(reason)
    if status is not Status.OOM:
        _demand_handover(phases, phase, f"{reason}\n{stored_log(directory)[-4096:]}")
    return Reply(status, reason, phase=phase)


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 99` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _of_ranks(outcome: Outcome, directory: Path, world_size: int, timeout_s: float) -> ranks.Answer:
    replies = {rank: read_reply(directory, rank) for rank in range(world_size)}
    phases = {rank: read_phases(directory, rank) for rank in range(world_size)}
    if all(reply is not None and reply.status is Status.OK for reply in replies.values()):
        return ranks.combine({rank: reply for rank, reply in replies.items() if reply is not None}, phases)
    stacks = {rank: ranks.read_stack(directory, rank) for rank in range(world_size)}
    rank, returncode = ranks.culprit(outcome, replies, phases, read_failures(directory), stacks)
    reply = replies[rank]
    if reply is None:
        reply = _without_reply(outcome, returncode, phases[rank], directory, timeout_s, who=f"rank {rank}")
        if outcome.end is End.TIMEOUT and stacks[rank]:
            reply = dataclasses.replace(reply, reason=f"{reply.reason}, at {scrub(stacks[rank][0])}")
    else:
        _demand_handover(phases[rank], reply.phase, reply.reason or "")
    reason = reply.reason or ""
    named = reason if f"rank {rank}" in reason else f"rank {rank}: {reason}"
    return ranks.Answer(dataclasses.replace(reply, reason=named, measurements=(), rank=rank), rank, phases[rank])
