"""One sample on a CPU: wall time by `perf_counter_ns`, with the caches flushed before it where the case says cold."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

from bench.records import Json, Measurement
from bench.worker.timing import Timed

FLUSH_LIMIT_BYTES = 2**30
"""Virtual machines may report the last-level cache of the whole host; more than this is not flushed."""


def last_level_cache_bytes(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int | None:
    """Size of the largest cache of CPU 0, or None where the system does not say."""
    sizes = []
    for path in root.glob("index*/size"):
        text = path.read_text().strip()
        scale = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KMG")) * scale)
    return max(sizes, default=None)


class WallTimer:
    """Implements `SampleTimer`. With `flush_bytes` it writes a buffer of that size before each sample, untimed."""

    least_warmup_s = 0.0
    warm_within = 0.03

    def __init__(self, flush_bytes: int | None = None, clock_ns: Any = time.perf_counter_ns) -> None:
        import torch

        self.batches = flush_bytes is None
        self._clock_ns = clock_ns
        self._flush = None if flush_bytes is None else torch.zeros(flush_bytes, dtype=torch.uint8)
        self.begin_sampling()

    def now(self) -> float:
        return float(self._clock_ns()) * 1e-9

    def begin_sampling(self) -> None:
        self._before = resource.getrusage(resource.RUSAGE_SELF)

    def sample(self, step: Timed, calls: int) -> float:
        step.prepare(calls)
        if self._flush is not None:
            self._flush.add_(1)
        clock_ns = self._clock_ns
        if calls == 1:
            start = clock_ns()
            kept = step()
            stop = clock_ns()
        else:
            start = clock_ns()
            for _ in range(calls):
                kept = step()
            stop = clock_ns()
        del kept  # freed after the clock has stopped
        return (stop - start) * 1e-9 / calls

    def measurements(self) -> tuple[Measurement, ...]:
        return ()

    def conditions(self) -> dict[str, Json]:
        """Involuntary context switches since sampling began: each is a moment in which another process had our core."""
        now = resource.getrusage(resource.RUSAGE_SELF)
        facts: dict[str, Json] = {"involuntary_switches": now.ru_nivcsw - self._before.ru_nivcsw}
        if self._flush is not None:
            facts["flush_bytes"] = self._flush.numel()
        return facts
