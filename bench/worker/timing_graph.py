"""One sample on CUDA by graph replay: the call without its launch cost, behind a flush inside the graph.

Two graphs are captured: one holds `UNROLL` repetitions of [flush, call], the other `UNROLL` flushes alone. A sample replays both, each
inside an event pair, and is the difference divided by `UNROLL`. Without the flush in the graph every repetition after the first would
find its data in the L2; without subtracting it, the flush would count as the call's time.

A difference that is no larger than what the flushes themselves vary by says nothing about the call; then the row is `unsupported`.

What a graph can hold is narrower than what can be called. Capture fails where the subject synchronises or allocates through other
channels; then the row is `unsupported`, in CUDA's words. A backward alone would need a captured forward whose graph is torn down at
each replay, and is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from bench.errors import Unsupported
from bench.records import Json, Measurement, Pass
from bench.stats import median, quantile
from bench.worker.step import Step
from bench.worker.timing import Timed

UNROLL = 8
WARMUP_CALLS = 3


class GraphTimer:
    """Implements `SampleTimer`; captures at the first sample."""

    batches = False
    least_warmup_s = 0.5
    warm_within = 0.01

    def __init__(self, flush: bool) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._flush = torch.empty(properties.L2_cache_size // 4, dtype=torch.int32, device="cuda") if flush else None
        self._graphs: tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph | None] | None = None
        self._flush_seconds: list[float] = []
        self._seconds: list[float] = []

    def now(self) -> float:
        return time.perf_counter()

    def begin_sampling(self) -> None:
        self._flush_seconds.clear()
        self._seconds.clear()

    def sample(self, step: Timed, calls: int) -> float:
        if self._graphs is None:
            if not isinstance(step, Step):
                raise TypeError("a graph is captured from a Step")
            self._graphs = self._capture(step)
        graph, flush_graph = self._graphs
        seconds = _replay_s(graph)
        flush_seconds = _replay_s(flush_graph) if flush_graph is not None else 0.0
        self._flush_seconds.append(flush_seconds / UNROLL)
        self._seconds.append((seconds - flush_seconds) / UNROLL)
        return self._seconds[-1]

    def _capture(self, step: Step) -> tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph | None]:
        if step.pass_ is Pass.BACKWARD:
            raise Unsupported("timer cuda_graph cannot replay a backward alone; use forward_backward, or timer events")

        def flush() -> None:
            if self._flush is not None:
                self._flush.zero_()

        def flush_and_call() -> None:
            flush()
            step()

        try:
            graph = _captured(flush_and_call)
        except RuntimeError as error:
            raise Unsupported(f"cannot be captured in a CUDA graph: {error}") from error
        return graph, _captured(flush) if self._flush is not None else None

    def measurements(self) -> tuple[Measurement, ...]:
        """None of its own. Raises Unsupported where the samples are too short to be told from the flushes."""
        if self._flush is not None and (fault := too_short(self._seconds, self._flush_seconds)):
            raise Unsupported(fault)
        return ()

    def conditions(self) -> dict[str, Json]:
        facts: dict[str, Json] = {"graph_unroll": UNROLL}
        if self._flush is not None and self._flush_seconds:
            facts["flush_s"] = median(self._flush_seconds)
            facts["flush_bytes"] = self._flush.numel() * 4
        return facts


def too_short(seconds: Sequence[float], flush_seconds: Sequence[float]) -> str | None:
    """Why differences (seconds a call) are no times, given the flushes (seconds each) that were subtracted; None where they are."""
    spread = quantile(flush_seconds, 0.95) - quantile(flush_seconds, 0.05)
    centre = median(seconds)
    if min(seconds) > 0.0 and centre > spread:
        return None
    return (
        f"too short for cuda_graph: {centre * 1e6:.2f} us a call beside a flush that varies by {spread * 1e6:.2f} us; "
        "use timer events, or cache warm"
    )


def _captured(body: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """`UNROLL` repetitions of `body`, after the warm-up on a side stream that capture needs."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUP_CALLS):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(UNROLL):
            body()
    return graph


def _replay_s(graph: torch.cuda.CUDAGraph) -> float:
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1e-3
