"""The GPU's own clocks: SM cycles and nanoseconds read on the device, and waits of a known length.

Why cycles. A GPU under its power cap changes its clock all the time, and the clock wanders slowly enough that two processes that each
sample for a second see different averages: on an H200 a large matrix product differs by more than 1 % between processes in
milliseconds, and by 0.01 % in cycles. So each sample is enclosed by two stamps, each a kernel of one thread block that stores
`%clock64` (cycles of its SM), `%globaltimer` (nanoseconds) and `%smid`. Cycles count only where both stamps ran on the same SM,
since every SM has its own counter; idle GPUs place a single block on the same one, and the share that did is in the row's
conditions (`same_sm_share`).

The two stamps stand outside the event pair, so that they cost the sample nothing; the cycles of the interval between them include
the launch of a few kernels (about 5 us), so cycles of the call = clock (cycles / nanoseconds between the stamps) x time (events).

Triton compiles both kernels in the first trial of a run only; see cuda_launch.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

from bench.worker.cuda_launch import Binary, kernels, parameter_types

MOST_STAMPS = 2 * 20_000
FIELDS = 3
LONGEST_WAIT_NS = 2**31 - 1
_CLOCK_RATE = 13
"""CU_DEVICE_ATTRIBUTE_CLOCK_RATE, in kHz: the highest on data-centre cards, the rated boost by the data sheets of GeForce ones."""


def _compiled() -> list[Binary]:
    """Both kernels, made by Triton by launching each once."""
    # Here and not above: a machine without a GPU has no Triton.
    from bench.worker.cuda_kernels import spin, stamp

    scratch = torch.zeros(FIELDS, dtype=torch.int64, device="cuda")
    made = (kernel[(1,)](scratch, 0, num_warps=1) for kernel in (stamp, spin))
    return [Binary(kernel.metadata.name, kernel.asm["cubin"], parameter_types(kernel.asm["ptx"])) for kernel in made]


class DeviceClock:
    """Stamps and waits on the current device's current stream."""

    def __init__(self) -> None:
        folder = os.environ.get("BENCH_CLOCK_CACHE_DIR")
        major, minor = torch.cuda.get_device_capability()
        stems = [f"{name}-{major}{minor}" for name in ("stamp", "spin")]
        self._stamp, self._spin = kernels(Path(folder) if folder else None, stems, _compiled)
        self._stamps = torch.zeros(FIELDS * MOST_STAMPS, dtype=torch.int64, device="cuda")
        self._waited = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.used = 0
        self.stamp()
        self.wait(1e-6)
        torch.cuda.synchronize()
        self.used = 0

    def stamp(self) -> int:
        """Enqueues a reading; returns its index. Beyond the buffer's end the last place is overwritten."""
        index = min(self.used, MOST_STAMPS - 1)
        self._stamp(_stream(), self._stamps.data_ptr(), index)
        self.used += 1
        return index

    def wait(self, seconds: float) -> None:
        """Enqueues a kernel that ends `seconds` after it began, by the device's nanosecond timer. Raises ValueError above 2.1 s."""
        nanoseconds = int(seconds * 1e9)
        if nanoseconds > LONGEST_WAIT_NS:
            raise ValueError(f"a wait of {seconds:g} s is longer than the kernel can count")
        self._spin(_stream(), self._waited.data_ptr(), nanoseconds)

    def waited_s(self) -> float:
        """How long the last wait really lasted, by its own reading; synchronises."""
        return float(self._waited.item()) * 1e-9

    def clocks_hz(self, pairs: list[tuple[int, int]]) -> list[float | None]:
        """The SM clock between each pair of stamps; None where the two ran on different SMs. Synchronises."""
        if not pairs:
            return []
        begin = min(map(min, pairs))
        readings = self._stamps.view(MOST_STAMPS, FIELDS)[begin : min(self.used, MOST_STAMPS)].cpu().tolist()
        clocks: list[float | None] = []
        for first, last in pairs:
            cycles_a, ns_a, sm_a = readings[first - begin]
            cycles_b, ns_b, sm_b = readings[last - begin]
            clocks.append((cycles_b - cycles_a) / (ns_b - ns_a) * 1e9 if sm_a == sm_b and ns_b > ns_a else None)
        return clocks


def highest_clock_hz(index: int) -> float | None:
    """What the driver tells as the highest clock of the SMs of `cuda:index`, which some cards exceed; None where it tells none."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, khz = ctypes.c_int(), ctypes.c_int()
    asked = driver.cuDeviceGet(ctypes.byref(device), index)
    asked = asked or driver.cuDeviceGetAttribute(ctypes.byref(khz), _CLOCK_RATE, device)
    return khz.value * 1e3 if not asked and khz.value > 0 else None


def _stream() -> int:
    return torch.cuda.current_stream().cuda_stream
