"""What a trial needs of a device, and the one place that chooses between devices."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch

from bench.records import Case, Json, Measurement, Request, Scalar
from bench.records import Protocol as SamplingProtocol
from bench.worker.device_cpu import CpuSide
from bench.worker.step import Step
from bench.worker.timing import SampleTimer


class DeviceSide(Protocol):
    """One device, as a trial uses it."""

    torch_device: str
    """`cpu` or `cuda:N`."""
    times: bool
    """False where time means nothing (an interpreter)."""

    def initialise(self) -> None:
        """Creates the context: the phase `device_init`. Raises Unavailable where the device is absent."""

    def generator(self, seed: int) -> torch.Generator:
        """Draws inputs for the measured shape. May live on the device, where drawing on the host would take too long."""

    def synchronize(self) -> None:
        """Returns when the device has finished."""

    def limited_memory(self, protocol: SamplingProtocol) -> AbstractContextManager[None]:
        """A cap on memory, so that a subject that takes everything ends as `oom` and takes no other process along."""

    def timer(self, case: Case) -> SampleTimer:
        """A fresh timer for the case's cache regime and timer. Raises Unsupported for one that the device lacks."""

    def peak(self, step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
        """The memory pass: its measurements, and facts for the conditions."""

    def runtime(self) -> dict[str, Scalar]:
        """Facts about the device and its libraries that join the environment."""


def open_device(request: Request) -> DeviceSide:
    """The device of the request's case; nothing is initialised yet."""
    if request.case.device == "cuda":
        from bench.worker.device_cuda import CudaSide

        return CudaSide(request.device_index)
    return CpuSide(request.threads, times=request.case.device == "cpu")
