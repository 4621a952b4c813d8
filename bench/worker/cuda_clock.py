"""The GPU's own clocks: SM cycles and nanoseconds read on the device, and waits of a known length.

Why cycles. A GPU under its power cap changes its clock all the time, and the clock wanders slowly enough that two processes that each
sample for a second see different averages: on an H200 a large matrix product differs by more than 1 % between processes in
milliseconds, and by 0.01 % in cycles. So each sample is enclosed by two stamps, each a kernel of one thread block that stores
`%clock64` (cycles of its SM), `%globaltimer` (nanoseconds) and `%smid`. Cycles count only where both stamps ran on the same SM,
since every SM has its own counter; idle GPUs place a single block on the same one, and the share that did is in the row's
conditions (`same_sm_share`).

The two stamps stand outside the event pair, so that they cost the sample nothing; the cycles of the interval between them include
the launch of a few kernels (about 5 us), so cycles of the call = clock (cycles / nanoseconds between the stamps) x time (events).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

MOST_STAMPS = 2 * 20_000
FIELDS = 3


@contextlib.contextmanager
def own_cache() -> Iterator[None]:
    """Triton's cache is the clock's own meanwhile: each case compiles into an empty folder, and our kernels must not be anew each time.

    Triton looks the folder up whenever it compiles. The parent names ours in BENCH_CLOCK_CACHE_DIR; without that nothing changes.
    """
    ours, theirs = os.environ.get("BENCH_CLOCK_CACHE_DIR"), os.environ.get("TRITON_CACHE_DIR")
    if ours is None or theirs is None:
        yield
        return
    os.environ["TRITON_CACHE_DIR"] = ours
    try:
        yield
    finally:
        os.environ["TRITON_CACHE_DIR"] = theirs


class DeviceClock:
    """Stamps and waits on the current device's current stream."""

    def __init__(self) -> None:
        # Here and not above: a machine without a GPU has no Triton.
        from bench.worker.cuda_kernels import spin, stamp

        self._stamp, self._spin = stamp, spin
        self._stamps = torch.zeros(FIELDS * MOST_STAMPS, dtype=torch.int64, device="cuda")
        self._waited = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.used = 0
        with own_cache():
            self.stamp()
            self.wait(1e-6)
            torch.cuda.synchronize()
        self.used = 0

    def stamp(self) -> int:
        """Enqueues a reading; returns its index. Beyond the buffer's end the last place is overwritten."""
        index = min(self.used, MOST_STAMPS - 1)
        self._stamp[(1,)](self._stamps, index, num_warps=1)
        self.used += 1
        return index

    def wait(self, seconds: float) -> None:
        """Enqueues a kernel that ends `seconds` after it began, by the device's nanosecond timer."""
        self._spin[(1,)](self._waited, int(seconds * 1e9), num_warps=1)

    def waited_s(self) -> float:
        """How long the last wait really lasted, by its own reading; synchronises."""
        return float(self._waited.item()) * 1e-9

    def clocks_hz(self, pairs: list[tuple[int, int]]) -> list[float | None]:
        """The SM clock between each pair of stamps; None where the two ran on different SMs. Synchronises."""
        readings = self._stamps.view(MOST_STAMPS, FIELDS)[: min(self.used, MOST_STAMPS)].cpu().tolist()
        clocks: list[float | None] = []
        for first, last in pairs:
            cycles_a, ns_a, sm_a = readings[first]
            cycles_b, ns_b, sm_b = readings[last]
            clocks.append((cycles_b - cycles_a) / (ns_b - ns_a) * 1e9 if sm_a == sm_b and ns_b > ns_a else None)
        return clocks
