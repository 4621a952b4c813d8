"""The words that records are written in: versions, statuses, passes, states of a run, names that all records share."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

RECORD_VERSION = 1
"""Raised when the meaning of a stored record changes."""

METHOD_VERSION = 2
"""Raised when the way of measuring changes, so that old and new numbers never share a series.

1: the device was kept busy for at most 5 ms until the host had enqueued a call. 2: for at most 20 ms, so that calls which enqueue
for longer than 5 ms are timed without launch gaps too.
"""

NO_METHOD_OF_OURS = 0
"""The version in rows that another tool measured, or an audit: they are never held against what suites measured."""

Scalar = str | int | float | bool | None
Json = Any

TrialKey = tuple[str, str, int, int]
"""(case key, arm, index, attempt): unique within a run."""

MEMORY_LIMIT_PARAM = "memory_limit_bytes"
"""The parameter of a case with a cap on what it may allocate on its device; a case without one lacks it."""

FIXED_AXES = ("pass", "dtype", "device", "cache", "timer", "world_size")
"""Axes that every case has, beside its workload, subject and parameters."""

INTERPRETER = "cpu-interpreter"
"""The CPU, which runs a device's kernels too, for numbers and memory, never for speed; what runs on `cpu` runs there."""
HARDWARE = ("cpu", "cuda")
DEVICES = (*HARDWARE, INTERPRETER)

MANUAL = "manual"
NIGHTLY = "nightly"
RERUN = "rerun"
CONFIRM, BISECT = "confirm", "bisect"
IMPORTED = "import"
"""The reason of a run whose rows another tool measured."""
EXTERNAL = "external"
"""The reason of a run of somebody's own script: an audit, which is never compared with what suites measured."""
IN_TURN = (CONFIRM, BISECT)
"""Reasons of runs that measured a few cases in several versions, with an arm for each: nobody means one of them by `latest`."""


def utc_now(timespec: str = "milliseconds") -> str:
    """The time now as records hold it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec=timespec)


class Status(StrEnum):
    """How a trial ended. All but `OK` carry a reason, and all are rows."""

    OK = "ok"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    INCORRECT = "incorrect"
    OOM = "oom"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    INVALID = "invalid"


class Pass(StrEnum):
    """Which part of the computation is timed.

    FORWARD runs without autograd. BACKWARD times the backward alone, after an untimed forward. FORWARD_BACKWARD times both, as in
    training. STEP is one update of an optimizer, QUANTIZE the conversion of a layer: neither runs under autograd.
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    FORWARD_BACKWARD = "forward_backward"
    STEP = "step"
    QUANTIZE = "quantize"

    @property
    def differentiates(self) -> bool:
        return self in (Pass.BACKWARD, Pass.FORWARD_BACKWARD)


class RunState(StrEnum):
    """How far a run came. FINISHED and BUDGET are at rest; all but FINISHED can be resumed."""

    RUNNING = "running"
    FINISHED = "finished"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"
