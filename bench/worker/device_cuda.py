"""A CUDA device: its context, timers, memory counters, and the facts that only a process on it can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bench.declare import Unavailable, Unsupported
from bench.records import Case, Json, Measurement, Scalar
from bench.records import Protocol as SamplingProtocol
from bench.worker import memory_cuda
from bench.worker.step import Step
from bench.worker.timing import SampleTimer
from bench.worker.timing_cuda import EventTimer
from bench.worker.timing_graph import GraphTimer


class CudaSide:
    """Implements `DeviceSide` for `cuda:index`."""

    times = True

    def __init__(self, index: int) -> None:
        self._index = index
        self.torch_device = f"cuda:{index}"

    def initialise(self) -> None:
        if not torch.cuda.is_available():
            raise Unavailable("torch does not see a CUDA device")
        torch.cuda.set_device(self._index)
        torch.zeros(1, device=self.torch_device)
        torch.cuda.synchronize()

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator(device=self.torch_device).manual_seed(seed)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    @contextmanager
    def limited_memory(self, protocol: SamplingProtocol) -> Iterator[None]:
        """The driver refuses what does not fit, so no cap is needed."""
        yield

    def timer(self, case: Case) -> SampleTimer:
        flush = case.cache == "cold"
        if case.timer == "events":
            return EventTimer(flush)
        if case.timer == "cuda_graph":
            return GraphTimer(flush)
        raise Unsupported(f"a CUDA device is timed by events or cuda_graph, not by {case.timer}")

    def peak(self, step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
        return memory_cuda.peak_bytes(step)

    def runtime(self) -> dict[str, Scalar]:
        properties = torch.cuda.get_device_properties(self._index)
        return {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "cudnn": torch.backends.cudnn.version(),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        }
