"""One sample on CUDA by the host's clock: for calls that work on the host too, such as reading a file or moving states.

Order of one sample: [flush of exactly the L2], wait until the device is idle, the call, wait again. Launch gaps and the host's own
work are in the time, on purpose: they are part of what such a call costs. Kernels alone are better timed by events.

A stamp of the device's clock stands before the wait and one after the time was taken: by them warm-up knows whether power holds the
clock back (timing_cuda.py).
"""

from __future__ import annotations

import time
from collections import deque

import torch

from bench.records import Json, Measurement
from bench.worker.cuda_clock import DeviceClock, highest_clock_hz
from bench.worker.timing import Timed
from bench.worker.timing_cuda import CLOCKS_LOOKED_AT, least_warmup_s


class HostTimer:
    """Implements `SampleTimer` on the current CUDA device."""

    batches = False
    warm_within = 0.01

    def __init__(self, flush: bool) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._flush = torch.empty(properties.L2_cache_size // 4, dtype=torch.int32, device="cuda") if flush else None
        self._clock = DeviceClock()
        self._highest_hz = highest_clock_hz(torch.cuda.current_device())
        self._pairs: deque[tuple[int, int]] = deque(maxlen=CLOCKS_LOOKED_AT)

    @property
    def least_warmup_s(self) -> float:
        return least_warmup_s(self._clock.clocks_hz(list(self._pairs)), self._highest_hz)

    def now(self) -> float:
        return time.perf_counter()

    def begin_sampling(self) -> None:
        """Nothing but clocks is remembered from sample to sample."""
        self._clock.used = 0
        self._pairs.clear()

    def sample(self, step: Timed, calls: int) -> float:
        if calls != 1:
            raise ValueError("one call a sample on CUDA: the caches are flushed before each")
        step.prepare(1)
        if self._flush is not None:
            self._flush.zero_()
        first = self._clock.stamp()
        torch.cuda.synchronize()
        start = time.perf_counter()
        kept = step()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        self._pairs.append((first, self._clock.stamp()))
        del kept
        return seconds

    def measurements(self) -> tuple[Measurement, ...]:
        return ()

    def conditions(self) -> dict[str, Json]:
        return {}
