"""What a trial needs of a device, and the one place that chooses between devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import torch

from bench.errors import HarnessError, Unsupported
from bench.records import Case, Json, Measurement, Request, Scalar
from bench.records import Protocol as SamplingProtocol
from bench.worker.device_cpu import CpuSide
from bench.worker.phase_times import Marks
from bench.worker.step import Step
from bench.worker.timing import SampleTimer


class WrongDeviceError(HarnessError):
    """The process sees another GPU than the one whose lock the parent holds: no row may be made on it, and the run must stop."""


class DeviceSide(Protocol):
    """One device, as a trial uses it."""

    torch_device: str
    """`cpu` or `cuda:N`."""
    times: bool
    """False where time means nothing (an interpreter)."""

    def initialise(self) -> None:
        """Creates the context and sets how fp32 is rounded: the phase `device_init`.

        Raises Unavailable where the device is absent, Unsupported for a dtype that it does not have, and WrongDeviceError.
        """

    def generator(self, seed: int) -> torch.Generator:
        """Draws inputs for the measured shape. May live on the device, where drawing on the host would take too long."""

    def synchronize(self) -> None:
        """Returns when the device has finished."""

    def limited_memory(self, protocol: SamplingProtocol, limit_bytes: int | None) -> AbstractContextManager[Callable[[], None]]:
        """A cap on memory, so that a subject that takes everything ends as `oom` and takes no other process along.

        `limit_bytes` is the case's own cap, as of a smaller device. It binds from when what this yields is called, which raises a
        MemoryError or torch.OutOfMemoryError where more is held by then. Raises Unsupported where this device has less.
        """

    def timer(self, case: Case) -> SampleTimer:
        """A fresh timer for the case's cache regime and timer. Raises Unsupported for one that the device lacks."""

    def marks(self) -> Marks:
        """Takes the moments between the phases of one call."""

    def peak(self, step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
        """The memory pass: its measurements, and facts for the conditions."""

    def allocator_retries(self) -> int | None:
        """How often the allocator has had to give back what it kept and try again, since the process began; None: it never does."""

    def release(self) -> None:
        """Gives what no tensor holds any more back to the device, after an out-of-memory."""

    def runtime(self) -> dict[str, Scalar]:
        """Facts about the device and its libraries that join the environment: the same for all dtypes."""


def load_driver(case: Case) -> None:
    """Does what a device's driver needs a tenth of a second for, and that does not take the device: nobody sees this process there.

    What is wrong with the driver is for `initialise` to tell.
    """
    if case.device == "cuda":
        from bench.worker import device_cuda

        device_cuda.load_driver()


def open_device(request: Request) -> DeviceSide:
    """The device of the request's case; nothing is initialised yet. Of several ranks each has the GPU of its own number.

    Raises Unsupported where there are fewer GPUs than ranks, or where the run has locked another GPU than the first.
    """
    if request.case.device == "cuda":
        from bench.worker.device_cuda import CudaSide

        if request.case.world_size == 1:
            return CudaSide(request.device_index, request.device_uuid, request.case.dtype)
        seen = torch.cuda.device_count()
        if seen < request.case.world_size:
            raise Unsupported(f"{request.case.world_size} ranks need a GPU each; torch sees {seen}")
        if request.device_index != 0:
            raise Unsupported("ranks take the GPUs from the first on: measure with --device cuda:0")
        rank = int(os.environ["LOCAL_RANK"])
        return CudaSide(rank, request.device_uuid if rank == 0 else None, request.case.dtype)
    return CpuSide(request.threads, request.case.dtype, times=request.case.device == "cpu")
