"""What makes a measured trial `invalid`: more than the data sheet allows, or clocks held back by heat or hardware.

A power cap alone is the normal state of a busy GPU and changes nothing here: it is recorded, and the cycles beside the time show what
it did. Heat and the hardware's own slow-downs are different: the time is then that of another machine. Such a trial is thrown away,
the GPU gets a pause to recover, and the trial is measured again, a bounded number of times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol

from bench.machine import Device
from bench.machine.datasheet import data_sheet
from bench.machine.throttling import FORBIDDING
from bench.records import Case, Json, Reply, Status
from bench.run.worker import Measured
from bench.stats import median

PAUSES_S = (5.0, 10.0, 20.0)
L2_MULTIPLE = 4
"""Below this many times the L2 a working set may be served by the cache, and its bandwidth says nothing about memory."""


class Pause(Protocol):
    def __call__(self, seconds: float) -> bool:
        """Waits; False where we were asked to stop meanwhile."""


def held_back(conditions: Mapping[str, Json]) -> str | None:
    """Which of the forbidding reasons the driver gave during the trial, in words; None: none."""
    shares = conditions.get("throttle_share") or {}
    gpus = conditions.get("gpus") or {}
    reasons = []
    for name in FORBIDDING:
        if shares.get(name):
            held = [number for number, found in gpus.items() if (found.get("throttle_share") or {}).get(name)]
            where = f" on cuda:{' and cuda:'.join(held)}" if held else ""
            reasons.append(f"{name} in {shares[name]:.0%} of the readings{where}")
    return ", ".join(reasons) or None


def unthrottled(measure: Callable[[], Measured | None], pause: Pause) -> Measured | None:
    """The first trial that ran at the GPU's own clocks; after the last pause `invalid`, its numbers kept. None: asked to stop."""
    discarded = 0
    while (measured := measure()) is not None:
        reasons = held_back(measured.conditions)
        if discarded:
            measured = _with_conditions(measured, discarded_trials=discarded)
        if reasons is None or measured.answer.reply.status is not Status.OK:
            return measured
        if discarded == len(PAUSES_S):
            again = f"and {discarded} more times after pauses of up to {PAUSES_S[-1]:g} s"
            return invalid(measured, f"clocks were held back ({reasons}), {again}")
        if not pause(PAUSES_S[discarded]):
            return None
        discarded += 1
    return None


def above_data_sheet(case: Case, reply: Reply, device: Device, *, in_its_dtype: bool = True) -> str | None:
    """Why the time cannot be true, or None. An unknown GPU has no limits, and an interpreter or a CPU none either.

    Nor has a subject that computes in another format than the case's dtype (`in_its_dtype`): the work is counted in that dtype.
    """
    sheet = data_sheet(device.name) if case.device == "cuda" and in_its_dtype else None
    times = next((m.samples for m in reply.measurements if m.metric == "time_s" and m.scope == "trial"), None)
    if sheet is None or times is None or reply.cost is None or case.world_size != 1:
        return None
    seconds = median(times)
    limit = sheet.flops.get(case.dtype)
    if limit is not None and reply.cost.flops is not None and reply.cost.flops / seconds > limit:
        rate = reply.cost.flops / seconds / 1e12
        return f"{rate:.4g} TFLOP/s are more than the {limit / 1e12:.4g} of the data sheet ({sheet.source})"
    l2_bytes = reply.runtime.get("l2_bytes")
    moved = reply.cost.bytes
    if moved is not None and isinstance(l2_bytes, int) and moved >= L2_MULTIPLE * l2_bytes and moved / seconds > sheet.bandwidth:
        rate = moved / seconds / 1e12
        return f"{rate:.4g} TB/s are more than the {sheet.bandwidth / 1e12:.4g} of the data sheet ({sheet.source})"
    return None


def invalid(measured: Measured, reason: str) -> Measured:
    """The same trial as `invalid`; its numbers stay, for whoever wants to know how far off they were."""
    reply = dataclasses.replace(measured.answer.reply, status=Status.INVALID, reason=reason)
    return dataclasses.replace(measured, answer=dataclasses.replace(measured.answer, reply=reply))


def _with_conditions(measured: Measured, **facts: Json) -> Measured:
    return dataclasses.replace(measured, conditions={**measured.conditions, **facts})
