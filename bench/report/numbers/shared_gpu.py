"""Rows whose GPU others computed on meanwhile: their times are not shown, and what is counted of their memory holds.

A process that only holds memory, such as an idle notebook, disturbs no time. One of which the name was also busy on the CPU computed; and
where one of a run's rows had such a neighbour, whatever else was on the GPU beside other rows of that run is taken to have computed too,
since a process that ended within a trial is not seen to have been busy.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records import Json, Result, Status

UNKNOWN = "unknown"
"""The name of a process that NVML tells by a number of the host alone."""
DEVICE_USED = "device_used_bytes"


def on_its_gpu(result: Result) -> tuple[str, ...]:
    """The names of other processes that had the GPU open for computing while the row was measured."""
    found = result.conditions.get("other_compute_processes")
    return tuple(map(_name, found)) if isinstance(found, list | tuple) else ()


def computed_beside(result: Result) -> bool:
    """Whether one of them was busy."""
    others = set(on_its_gpu(result))
    busy = result.conditions.get("busy_processes")
    names = set(map(_name, busy)) if isinstance(busy, list | tuple) else set()
    return bool(names) and bool(others & (names | {UNKNOWN}))


def why_no_time(counted: Sequence[Result], *, shared: bool) -> str | None:
    """Why a case shows no time: its trials shared their GPU, at least half of them. `shared` tells whether any row of the run did."""
    measured = [result for result in counted if result.status is Status.OK]
    touched = sum(bool(on_its_gpu(result)) for result in measured) if shared else 0
    if not touched or 2 * touched < len(measured):
        return None
    return f"no time is shown: other processes computed on its GPU in {touched} of {len(measured)} trials"


def tells_growth(result: Result, samples: Sequence[float]) -> bool:
    """Whether the growth of the device's used memory is this row's own: others take and give back meanwhile, down to below nothing."""
    return not on_its_gpu(result) and min(samples) >= 0


def _name(entry: Json) -> str:
    return str(entry.get("name", "?")) if isinstance(entry, dict) else str(entry)
