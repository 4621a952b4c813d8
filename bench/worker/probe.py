"""Whether a case fits, in one call after the first: timed by the host's clock while its peak is counted.

At the end of what fits a call may take minutes, and a whole trial makes some fifteen. Here the first call warms up, and the second one
counts. Nothing is told of phases, causes, communication or saved bytes, and which kernel ran is not looked at. What the workload says of
what was built, such as bytes held on the host and on disk, costs no call and is told. On a CPU, where the peak is counted by the profiler,
the time is that of a profiled call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.metrics import METRICS
from bench.records import Check, Json, Measurement
from bench.worker.check import finite_after, finite_checks
from bench.worker.device import DeviceSide
from bench.worker.step import Step
from bench.worker.team import Team

NOT_LOOKED_AT = "a probe: whether it fits was all that was asked"
NOTE = "n = 1: a probe; one call after the first, while its peak was counted"


@dataclass(frozen=True, slots=True)
class Found:
    measurements: tuple[Measurement, ...]
    facts: dict[str, Json]
    checks: tuple[Check, ...]


class _Clocked(Step):
    """The same step, which keeps the seconds of its last call and what that returned."""

    def __init__(self, step: Step, synchronize: Callable[[], None]) -> None:
        super().__init__(step.bound, step.inputs, step.cotangents, step.pass_)
        self._synchronize = synchronize
        self.seconds: float | None = None
        self.returned: Any = None

    def __call__(self) -> Any:
        self._synchronize()
        start = time.perf_counter()
        self.returned = super().__call__()
        self._synchronize()
        self.seconds = time.perf_counter() - start
        return self.returned


def probe(step: Step, device: DeviceSide, team: Team) -> Found:
    """One call on every rank at once. Out of memory is the answer then, and is raised.

    Where forward and backward are called one by one to be counted, there is no time, and one more call is looked at for finite numbers.
    """
    if step.bound.settle is not None:
        step.bound.settle()
    clocked = _Clocked(step, device.synchronize)
    team.barrier()
    measurements, facts = device.peak(clocked)
    if clocked.seconds is None:
        return Found(measurements, facts, tuple(finite_checks(step)))
    if device.times:
        measurements += (Measurement("time_s", METRICS["time_s"].unit, (clocked.seconds,), note=NOTE),)
    return Found(measurements, facts, tuple(finite_after(clocked, clocked.returned)))
