"""Notices a subject that computes with more threads of the processor than the suite gives it: its time would be that of another question.

Two witnesses. torch's own number of threads, set before the subject was built, must still be the suite's afterwards. And where nothing but
the call works in this process, the processors that it kept busy while samples were taken cannot be more than its threads: that also shows
threads that it starts itself, or takes only for the length of a call. Threads that wait in vain for a processor of a busy machine are not
seen by the second, and gain nothing.

Only on a CPU: beside a GPU the host's threads are not what is timed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

import torch

from bench.records import Request
from bench.worker.refusals import DisagreesError

TOLERATED = 1.25
"""Busy processors for each thread: an interpreter's own threads may look after themselves now and then."""
LEAST_EXCESS_S = 0.05
"""Of processors' time beyond that of the threads: a kernel charges it by ticks of up to 10 ms, some of them later than they were used."""


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds of processors that this process took, and seconds that went by."""

    busy_s: float
    wall_s: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.process_time(), time.perf_counter())

    def since(self, earlier: Self) -> Self:
        return type(self)(self.busy_s - earlier.busy_s, self.wall_s - earlier.wall_s)

    def exceeds(self, threads: int) -> bool:
        """Whether so many threads cannot have taken it."""
        theirs = threads * self.wall_s
        return self.busy_s > TOLERATED * theirs and self.busy_s - theirs > LEAST_EXCESS_S


def demand_threads(request: Request, spent: ProcessorTime | None = None) -> None:
    """Raises DisagreesError where the subject computed with another number of threads. `spent`: while samples were taken, by it alone."""
    if request.case.device != "cpu":
        return
    given = f"the suite gives it {request.threads}"
    if (found := torch.get_num_threads()) != request.threads:
        raise DisagreesError(
            f"it computed with {found} thread{'s' if found > 1 else ''}, {given}: leave torch's number as it is set"
        )
    if spent is not None and spent.exceeds(request.threads):
        busy = spent.busy_s / spent.wall_s
        raise DisagreesError(f"it kept {busy:.1f} processors busy while samples were taken, with threads of its own; {given}")
