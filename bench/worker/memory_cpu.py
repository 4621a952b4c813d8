"""The exact peak of tensor bytes on a CPU, from the events that torch's allocator sends to the profiler.

Resident size is useless here: the C library keeps freed pages and reuses them. The profiler instead sees every allocation and
release of torch's CPU allocator, so a running sum is exact to the byte. What it cannot see is said in the measurement's note.

A release counts only where its allocation was seen. So the untimed part of the pass (the forward before a backward) is recorded too,
and the peak is taken above the sum at the moment when the pass begins.
"""

from __future__ import annotations

import gc
from typing import Any

import torch

from bench.metrics import METRICS
from bench.records import Measurement
from bench.worker.attribution_trace import residents_on_host
from bench.worker.step import PASS_MARK, Step

NOTE = "torch's CPU allocator only: scratch memory of libraries (oneDNN, MKL, Python, numpy) is not seen"


def peak_bytes(step: Step) -> tuple[Measurement, ...]:
    """One call of the pass: the highest running sum of bytes, above what was resident when it began; nothing without a profiler.

    For a subject that tells what it holds between calls also `peak_total_bytes`, with that and the inputs.
    """
    step.clear_gradients()
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step.prepare()
        resident = sum(size for _, size in residents_on_host(step))
        with torch.profiler.record_function(PASS_MARK):
            kept = step()
    del kept
    peak = _peak(profile.profiler.kineto_results.events())
    if peak is None:
        return ()
    net = Measurement("peak_bytes", METRICS["peak_bytes"].unit, (float(peak),), note=NOTE)
    if step.bound.holdings is None:
        return (net,)
    return net, Measurement("peak_total_bytes", METRICS["peak_total_bytes"].unit, (float(peak + resident),), note=NOTE)


def _peak(events: Any) -> int | None:
    """The rule above, on the profiler's events; None where the mark is missing, so that nothing was recorded."""
    begin = next((event.start_ns() for event in events if event.name() == PASS_MARK), None)
    if begin is None:
        return None
    changes = [event for event in events if event.name() == "[memory]"]
    # Sorting is stable, so that events within one nanosecond keep the order of the profiler's buffer.
    changes.sort(key=lambda event: event.start_ns())
    live = peak = 0
    for change in changes:
        if change.start_ns() < begin:
            continue
        live += change.nbytes()  # negative when given back
        peak = max(peak, live)
    return peak
