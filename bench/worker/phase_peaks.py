"""The highest memory of each phase of one call: the phases of a training step peak for different reasons, and the whole hides all but one.

In a pass of its own. On a CPU from the profiler's events, as the whole peak is; on CUDA from the allocator's counters, which are read and
reset between phases, so that phases do not overlap. Residents are included.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import torch

from bench.metrics import METRICS
from bench.records import Measurement
from bench.worker.attribution_trace import residents_on_host
from bench.worker.phase_times import PART_OF
from bench.worker.step import Step

MARK = "bench: phase "


def phase_peaks(step: Step) -> tuple[Measurement, ...]:
    """`<phase>_peak_bytes`, on CUDA also `<phase>_peak_reserved_bytes`; nothing for a subject that does not tell its phases or holdings."""
    if step.bound.phased is None or step.bound.holdings is None:
        return ()
    peaks = _on_cuda(step) if torch.cuda.is_initialized() else _on_host(step)
    return tuple(Measurement(name, METRICS[name].unit, (float(value),)) for name, value in peaks.items())


def _on_host(step: Step) -> dict[str, int]:
    assert step.bound.phased is not None
    gc.collect()

    def begin(phase: str) -> None:
        with torch.profiler.record_function(MARK + phase):
            pass

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step.prepare()
        resident = sum(size for _, size in residents_on_host(step))
        begin("")
        kept = step.bound.phased(step.inputs, begin)
    del kept
    return peaks_of(profile.profiler.kineto_results.events(), resident)


def peaks_of(events: Iterable[Any], resident: int) -> dict[str, int]:
    """The highest running sum above `resident` in each phase; what came before the first mark (an empty name) does not count."""
    told = sorted((event for event in events if event.name() == "[memory]" or event.name().startswith(MARK)), key=_start)
    peaks: dict[str, int] = {}
    live, phase = resident, None
    for event in told:
        if event.name() != "[memory]":
            named = event.name().removeprefix(MARK)
            phase = PART_OF.get(named, named)
        elif phase is not None:
            live += event.nbytes()
        if phase:
            name = f"{phase}_peak_bytes"
            peaks[name] = max(peaks.get(name, 0), live)
    return peaks


def _start(event: Any) -> int:
    start: int = event.start_ns()
    return start


def _on_cuda(step: Step) -> dict[str, int]:
    assert step.bound.phased is not None
    step.prepare()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    peaks: dict[str, int] = {}
    current = ""

    def begin(phase: str) -> None:
        nonlocal current
        torch.cuda.synchronize()
        if current:
            for counted, value in (("", torch.cuda.max_memory_allocated()), ("reserved_", torch.cuda.max_memory_reserved())):
                name = f"{current}_peak_{counted}bytes"
                peaks[name] = max(peaks.get(name, 0), value)
        torch.cuda.reset_peak_memory_stats()
        current = PART_OF.get(phase, phase)

    begin("")
    kept = step.bound.phased(step.inputs, begin)
    begin("")
    del kept
    return peaks
