"""Phases of one call, told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch

from bench.declare import Bound
from bench.records import Pass
from bench.worker.phase_times import FEWEST_CALLS, MOST_CALLS, HostMarks, phase_times
from bench.worker.step import Step


def step_of(phased: Callable[[Mapping[str, torch.Tensor], Callable[[str], None]], object] | None) -> Step:
    return Step(Bound(lambda inputs: inputs, phased=phased), {}, {}, Pass.STEP)


def test_what_tells_no_phases_has_no_times_of_them() -> None:
    assert phase_times(step_of(None), HostMarks) == ()


def test_each_phase_gets_its_own_time_and_one_that_comes_twice_in_a_call_the_sum() -> None:
    calls = []

    def phased(_inputs: object, mark: Callable[[str], None]) -> None:
        calls.append(1)
        for name, seconds in (("forward", 0.002), ("backward", 0.010), ("forward", 0.002), ("optimizer", 0.0)):
            mark(name)
            time.sleep(seconds)

    times = {m.metric: m for m in phase_times(step_of(phased), HostMarks)}
    assert set(times) == {"forward_s", "backward_s", "optimizer_s"}
    assert all(len(m.samples) == len(calls) - 1 for m in times.values())  # the first call warms up
    assert FEWEST_CALLS <= len(calls) - 1 <= MOST_CALLS
    assert min(times["forward_s"].samples) >= 0.004
    assert min(times["backward_s"].samples) >= 0.010
    # A pause of the machine may fall into any one call, not into the quickest of many.
    assert min(times["forward_s"].samples) < min(times["backward_s"].samples)


def test_no_more_samples_of_phases_are_taken_than_the_protocol_allows_of_the_call() -> None:
    calls = []

    def phased(_inputs: object, mark: Callable[[str], None]) -> None:
        calls.append(1)
        mark("forward")

    (times,) = phase_times(step_of(phased), HostMarks, most=1)
    assert len(times.samples) == 1
    assert len(calls) == 2  # the first one warms up
