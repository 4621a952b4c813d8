"""The files of a trial's folder by name: the parent and the worker, which may not import each other, meet in them.

Where a trial has several ranks each writes phases, reply, log and stack of its own.
"""

from __future__ import annotations

REQUEST = "request.json"
GATE = "gate"
"""The parent holds it locked until the trial may take its device: it is forked, and imports, while another's row is still stored."""
HARNESS_ERROR = "harness_error"
"""Written where our own code fails in the child; the parent stops the run on it."""
LAUNCH = "launch.json"
"""`{"failures": [{"rank": 1, "returncode": -9, "t": seconds since the epoch}, ...]}`, the culprit first; absent where none failed."""


def phases(rank: int | None = None) -> str:
    return _of("phases", rank) + ".jsonl"


def reply(rank: int | None = None) -> str:
    return _of("reply", rank) + ".json"


def log(rank: int | None = None) -> str:
    return _of("log", rank)


def stack(rank: int) -> str:
    """Where a rank stood when it was told to end. It holds the file locked while it lives."""
    return _of("stack", rank)


def _of(name: str, rank: int | None) -> str:
    return name if rank is None else f"{name}.{rank}"
