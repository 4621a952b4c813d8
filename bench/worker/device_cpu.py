"""The CPU as a device: threads, the cap on memory, wall time, and the allocator's peak.

It also runs Triton's kernels (`cpu-interpreter`), where time means nothing: numbers and memory are what they would be, and each row says
why it has no time.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

from bench.declare import Unsupported
from bench.records import Case, Json, Measurement, Scalar
from bench.records import Protocol as SamplingProtocol
from bench.worker import memory_cpu, triton_interpreter
from bench.worker.phase_times import HostMarks
from bench.worker.precision import set_precision
from bench.worker.step import Step
from bench.worker.timing import SampleTimer
from bench.worker.timing_cpu import FLUSH_LIMIT_BYTES, WallTimer, last_level_cache_bytes

DEFAULT_SHARE_OF_AVAILABLE = 0.9


class CpuSide:
    """Implements `DeviceSide`."""

    torch_device = "cpu"

    def __init__(self, threads: int, dtype: str, *, times: bool) -> None:
        self.times = times
        self._threads = threads
        self._dtype = dtype
        self._interpreter: dict[str, Scalar] = {}

    def initialise(self) -> None:
        set_precision(self._dtype, "cpu")
        if not self.times:
            triton_interpreter.refuse_dtype(self._dtype)
            self._interpreter = triton_interpreter.complete()
        torch.set_num_threads(self._threads)
        # May be called once in a process only, so not when it is right already.
        if torch.get_num_interop_threads() != 1:
            torch.set_num_interop_threads(1)

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def synchronize(self) -> None:
        return

    @contextmanager
    def limited_memory(self, protocol: SamplingProtocol, limit_bytes: int | None) -> Iterator[Callable[[], None]]:
        """RLIMIT_DATA above what the process holds now: the kernel counts private writable memory, shared libraries excluded."""
        allowed = protocol.host_memory_limit_bytes
        if allowed is None:
            allowed = int(DEFAULT_SHARE_OF_AVAILABLE * psutil.virtual_memory().available)
        if limit_bytes is not None and limit_bytes > allowed:
            raise Unsupported(f"a memory_limit of {limit_bytes:,} bytes needs that much memory; a trial has {allowed:,} bytes here")
        before = resource.getrlimit(resource.RLIMIT_DATA)
        begun = _data_bytes()

        def allow(size: int) -> None:
            limit = begun + size
            if before[1] != resource.RLIM_INFINITY:
                limit = min(limit, before[1])
            resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))

        def bind() -> None:
            if limit_bytes is None:
                return
            self.release()
            held = _data_bytes() - begun
            if held > limit_bytes:
                raise MemoryError(f"what was built holds {held:,} bytes")
            allow(limit_bytes)

        allow(allowed)
        try:
            yield bind
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, before)

    def timer(self, case: Case) -> SampleTimer:
        if case.timer != "wall":
            raise Unsupported(f"a CPU is timed by wall, not by {case.timer}")
        if case.cache == "warm":
            return WallTimer()
        cache = last_level_cache_bytes()
        if cache is None:
            raise Unsupported("cold caches need the size of the last-level cache, which this system does not tell")
        return WallTimer(flush_bytes=min(2 * cache, FLUSH_LIMIT_BYTES))

    def marks(self) -> HostMarks:
        return HostMarks()

    def peak(self, step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
        facts: dict[str, Json] = {} if self.times else {"no_time": triton_interpreter.NO_TIME}
        if self._interpreter:
            facts["interpreter_additions"] = triton_interpreter.ADDED
        return memory_cpu.peak_bytes(step), facts

    def allocator_retries(self) -> int | None:
        return None

    def release(self) -> None:
        gc.collect()

    def runtime(self) -> dict[str, Scalar]:
        return {
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "mkldnn": torch.backends.mkldnn.is_available(),
            "mkl": torch.backends.mkl.is_available(),
            "torch_threads": torch.get_num_threads(),
            **self._interpreter,
        }


def _data_bytes() -> int:
    """What the kernel counts against RLIMIT_DATA now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")
