"""How long each phase of one call lasts, for what does several things in one call: forward, backward and optimizer of a training step.

In a pass of its own, after the timing: the marks would be in the samples otherwise. On CUDA a mark is an event on the stream, so that
phases are the device's and not the host's; the first call warms up and is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import torch

from bench.metrics import METRICS
from bench.records import Measurement
from bench.worker.step import Step
from bench.worker.team import Alone, Team

FEWEST_CALLS = 3
MOST_CALLS = 20
ENOUGH_S = 1.0


class Marks(Protocol):
    """Moments of one call, in order."""

    def mark(self, name: str) -> None:
        """The phase `name` begins, and the one before ends."""

    def seconds(self) -> dict[str, float]:
        """Ends the last phase; seconds by name, phases that came several times added up."""


class HostMarks:
    """Moments on the host's clock."""

    def __init__(self) -> None:
        self._moments: list[tuple[str, float]] = []

    def mark(self, name: str) -> None:
        self._moments.append((name, time.perf_counter()))

    def seconds(self) -> dict[str, float]:
        ends = [moment for _, moment in self._moments[1:]] + [time.perf_counter()]
        return _added((name, end - begin) for (name, begin), end in zip(self._moments, ends, strict=True))


class StreamMarks:
    """Events on the current CUDA stream."""

    def __init__(self) -> None:
        self._events: list[tuple[str, torch.cuda.Event]] = []

    def mark(self, name: str) -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append((name, event))

    def seconds(self) -> dict[str, float]:
        self.mark("")
        torch.cuda.synchronize()
        pairs = zip(self._events, self._events[1:], strict=False)
        return _added((name, begin.elapsed_time(end) * 1e-3) for (name, begin), (_, end) in pairs)


def phase_times(
    step: Step, marks: Callable[[], Marks], team: Team | None = None, *, most: int = MOST_CALLS
) -> tuple[Measurement, ...]:
    """`<phase>_s` of each phase that the subject tells, one sample a call; nothing where it tells none.

    `most`: no more samples than the protocol allows of the whole call, where a step takes a minute and one is asked for.
    Ranks make as many calls as the first one: a call may wait for all of them.
    """
    team = team or Alone()
    phased = step.bound.phased
    if phased is None:
        return ()
    calls: list[dict[str, float]] = []
    spent_s = 0.0
    fewest, most = min(FEWEST_CALLS, most), min(MOST_CALLS, most)
    while team.agree(len(calls) <= fewest or (spent_s < ENOUGH_S and len(calls) <= most)):
        step.prepare()
        of_call = marks()
        kept = phased(step.inputs, of_call.mark)
        calls.append(of_call.seconds())
        del kept
        spent_s += sum(calls[-1].values())
    kept_calls = calls[1:]
    return tuple(
        Measurement(f"{name}_s", METRICS[f"{name}_s"].unit, tuple(call[name] for call in kept_calls)) for name in kept_calls[0]
    )


PART_OF = {"loss": "forward"}
"""A phase whose memory is of interest apart, to the one whose time it is part of."""


def _added(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for phase, value in pairs:
        name = PART_OF.get(phase, phase)
        seconds[name] = seconds.get(name, 0.0) + value
    return seconds
