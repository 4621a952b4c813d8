"""A stand-in for the `pynvml` module: as many GPUs as a test wants, each answering what a real one does."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(
            {9: "Driver Not Loaded", 12: "NVML Shared Library Not Found", 18: "Driver/library version mismatch"}.get(
                value, "Not Supported"
            )
        )


@dataclass
class Gpu:
    uuid: str
    name: str = "NVIDIA H200"
    memory: int = 150_754_820_096
    mig: list[Gpu] = field(default_factory=list)
    throttle_bits: int = 0x4
    processes: list[int] = field(default_factory=list)
    energy_mj: int = 1_000_000
    silent: frozenset[str] = frozenset()


def make(gpus: list[Gpu], *, init_error: int | None = None) -> types.ModuleType:
    """A module with the part of NVML that the product uses."""
    nvml: Any = types.ModuleType("pynvml")
    nvml.NVMLError = NVMLError
    nvml.NVML_ERROR_DRIVER_NOT_LOADED = 9
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND = 12
    nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM, nvml.NVML_TEMPERATURE_GPU = 1, 2, 0

    def nvml_init() -> None:
        if init_error is not None:
            raise NVMLError(init_error)

    def answer(name: str, give: Any) -> None:
        def call(handle: Gpu, *args: Any) -> Any:
            if name in handle.silent:
                raise NVMLError(3)
            return give(handle, *args)

        setattr(nvml, name, call)

    def energy(gpu: Gpu) -> int:
        gpu.energy_mj += 50_000
        return gpu.energy_mj

    nvml.nvmlInit = nvml_init
    nvml.nvmlDeviceGetCount = lambda: len(gpus)
    nvml.nvmlDeviceGetHandleByIndex = lambda index: gpus[index]
    nvml.nvmlSystemGetDriverVersion = lambda: "580.65.06"
    nvml.nvmlSystemGetCudaDriverVersion_v2 = lambda: 13000
    answer("nvmlDeviceGetUUID", lambda gpu: gpu.uuid)
    answer("nvmlDeviceGetName", lambda gpu: gpu.name)
    answer("nvmlDeviceGetMemoryInfo", lambda gpu: types.SimpleNamespace(total=gpu.memory, used=gpu.memory // 10))
    answer("nvmlDeviceGetMigMode", lambda gpu: [1 if gpu.mig else 0, 1 if gpu.mig else 0])
    answer("nvmlDeviceGetMaxMigDeviceCount", lambda gpu: 7)
    answer("nvmlDeviceGetEnforcedPowerLimit", lambda gpu: 700_000)
    answer("nvmlDeviceGetCudaComputeCapability", lambda gpu: (9, 0))
    answer("nvmlDeviceGetPersistenceMode", lambda gpu: 1)
    answer("nvmlDeviceGetEccMode", lambda gpu: [1, 1])
    answer("nvmlDeviceGetClockInfo", lambda gpu, kind: 1980 if kind == 1 else 3201)
    answer("nvmlDeviceGetPowerUsage", lambda gpu: 648_000)
    answer("nvmlDeviceGetTemperature", lambda gpu, sensor: 61)
    answer("nvmlDeviceGetUtilizationRates", lambda gpu: types.SimpleNamespace(gpu=97, memory=40))
    answer("nvmlDeviceGetCurrentClocksEventReasons", lambda gpu: gpu.throttle_bits)
    answer("nvmlDeviceGetComputeRunningProcesses", lambda gpu: [types.SimpleNamespace(pid=pid) for pid in gpu.processes])
    answer("nvmlDeviceGetTotalEnergyConsumption", energy)

    def instance(gpu: Gpu, index: int) -> Gpu:
        if index >= len(gpu.mig):
            raise NVMLError(6)
        return gpu.mig[index]

    answer("nvmlDeviceGetMigDeviceHandleByIndex", instance)
    module: types.ModuleType = nvml
    return module
