"""A CUDA device: its context, timers, memory counters, and the facts that only a process on it can read."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from bench.declare import Unavailable, Unsupported
from bench.records import Case, Json, Measurement, Scalar
from bench.records import Protocol as SamplingProtocol
from bench.worker import memory_cuda
from bench.worker.device import WrongDeviceError
from bench.worker.phase_times import StreamMarks
from bench.worker.precision import set_precision
from bench.worker.step import Step
from bench.worker.timing import SampleTimer
from bench.worker.timing_cuda import EventTimer
from bench.worker.timing_graph import GraphTimer
from bench.worker.timing_host import HostTimer


def load_driver() -> None:
    """cuInit, which makes no context."""
    # Torch says so when it starts CUDA, where the driver would load all kernels at once; from here on it is too late to say.
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    with suppress(OSError):  # no driver
        ctypes.CDLL("libcuda.so.1").cuInit(0)


class CudaSide:
    """Implements `DeviceSide` for `cuda:index`."""

    times = True

    def __init__(self, index: int, locked_uuid: str | None, dtype: str) -> None:
        self._index = index
        self._locked_uuid = locked_uuid
        self._dtype = dtype
        self.torch_device = f"cuda:{index}"

    def initialise(self) -> None:
        set_precision(self._dtype, "cuda")
        # Not asked beforehand whether there is one: that would open NVML in every trial.
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            # What NVML counts is there: that CUDA could not start it now says nothing of the next trial.
            if torch.cuda.device_count():
                raise
            raise Unavailable(f"torch does not see a CUDA device: {error}") from error
        torch.cuda.set_device(self._index)
        if self._locked_uuid is not None:
            require_same(self._locked_uuid, str(torch.cuda.get_device_properties(self._index).uuid), self.torch_device)
        torch.zeros(1, device=self.torch_device)
        torch.cuda.synchronize()

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator(device=self.torch_device).manual_seed(seed)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    @contextmanager
    def limited_memory(self, protocol: SamplingProtocol, limit_bytes: int | None) -> Iterator[Callable[[], None]]:
        """The driver refuses what does not fit, so without a limit of the case there is no cap.

        A limit binds torch's caching allocator, with all that it holds: inputs, and buffers of ours too. Not the context, nor what
        libraries take from the driver themselves.
        """
        if limit_bytes is None:
            yield lambda: None
            return
        total = torch.cuda.get_device_properties(self._index).total_memory
        if limit_bytes > total:
            raise Unsupported(
                f"a memory_limit of {limit_bytes:,} bytes needs that much memory; {self.torch_device} has {total:,} bytes"
            )

        def bind() -> None:
            # What the allocator has kept it hands out again whatever the limit is.
            self.release()
            held, kept = torch.cuda.memory_allocated(self._index), torch.cuda.memory_reserved(self._index)
            if kept > limit_bytes:
                raise torch.OutOfMemoryError(
                    f"CUDA out of memory. What was built holds {held:,} bytes in {kept:,} that the allocator keeps for it"
                )
            torch.cuda.set_per_process_memory_fraction(limit_bytes / total, self._index)

        try:
            yield bind
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, self._index)

    def timer(self, case: Case) -> SampleTimer:
        flush = case.cache == "cold"
        if case.timer == "events":
            return EventTimer(flush)
        if case.timer == "cuda_graph":
            return GraphTimer(flush)
        if case.timer == "wall":
            return HostTimer(flush)
        raise Unsupported(f"a CUDA device is timed by events, cuda_graph or wall, not by {case.timer}")

    def marks(self) -> StreamMarks:
        return StreamMarks()

    def peak(self, step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
        return memory_cuda.peak_bytes(step)

    def allocator_retries(self) -> int | None:
        return int(torch.cuda.memory_stats()["num_alloc_retries"])

    def release(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()

    def runtime(self) -> dict[str, Scalar]:
        properties = torch.cuda.get_device_properties(self._index)
        return {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "cudnn": torch.backends.cudnn.version(),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }


def require_same(locked_uuid: str, seen_uuid: str, torch_device: str) -> None:
    """Raises WrongDeviceError where NVML's UUID of the locked GPU (`GPU-...`) is not torch's (without the prefix).

    A part of a GPU has a UUID of its own (`MIG-...`), which torch does not tell in every release: it is not compared.
    """
    if locked_uuid.startswith("GPU-") and locked_uuid.removeprefix("GPU-").lower() != seen_uuid.removeprefix("GPU-").lower():
        raise WrongDeviceError(
            f"{torch_device} is GPU-{seen_uuid.removeprefix('GPU-')} here, but the run has locked {locked_uuid}; "
            "CUDA and NVML must number the GPUs alike (CUDA_DEVICE_ORDER=PCI_BUS_ID)"
        )
