"""One GPU's conditions through NVML: clocks, power, heat, why clocks are held back, and who else computes there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.machine.device import Device
from bench.machine.named_processes import ON_GPU, UNKNOWN
from bench.machine.neighbours import host_pids
from bench.machine.nvml import ask, open_nvml, visible_gpus
from bench.machine.throttling import reason_words


class GpuReadings:
    """One GPU's readings through NVML."""

    def __init__(self, device: Device) -> None:
        self.nvml = open_nvml()
        self.handle = visible_gpus()[device.index]
        self.bits: list[int] = []
        self.processes_most = 0
        self.foreign: set[int] = set()
        self.energy_mj: list[tuple[float, int]] = []
        """(monotonic seconds, millijoules), the first at once."""
        self.read_energy()

    def read_energy(self) -> None:
        """Keeps what the energy counter says now; by itself it is cheap, so it may be read more often than the rest."""
        energy_mj = ask(self.nvml.nvmlDeviceGetTotalEnergyConsumption, self.handle)
        if energy_mj is not None:
            self.energy_mj.append((time.monotonic(), int(energy_mj)))

    def read(self, add: Callable[[str, float | None], None]) -> None:
        """Hands each reading to `add` under its name, in Hz, W, degrees Celsius and bytes."""
        nvml, handle = self.nvml, self.handle
        self.read_energy()
        for name, kind in (("sm_clock_hz", nvml.NVML_CLOCK_SM), ("memory_clock_hz", nvml.NVML_CLOCK_MEM)):
            mhz = ask(nvml.nvmlDeviceGetClockInfo, handle, kind)
            add(name, mhz * 1e6 if mhz is not None else None)
        power_mw = ask(nvml.nvmlDeviceGetPowerUsage, handle)
        add("power_w", power_mw / 1e3 if power_mw is not None else None)
        add("temperature_c", ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU))
        used = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        add("gpu_utilisation", used.gpu / 100 if used is not None else None)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        add("gpu_memory_used_bytes", memory.used if memory is not None else None)
        # The newer name of the same call; drivers and bindings before 535 have only the older one.
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        bits = ask(reasons, handle)
        if bits is not None:
            self.bits.append(int(bits))

    def look_at_processes(self, ours: set[int], *, first: bool) -> None:
        """Counts compute processes.

        In a container NVML's pids are the host's, so there only those that ran before us are surely others'.
        """
        running = ask(self.nvml.nvmlDeviceGetComputeRunningProcesses, self.handle)
        if running is None:
            return
        pids = {int(process.pid) for process in running}
        self.processes_most = max(self.processes_most, len(pids))
        if first or host_pids():
            self.foreign |= pids - ours

    def summary(self, names: Mapping[int, str]) -> dict[str, Any]:
        nvml, handle = self.nvml, self.handle
        limit_mw = ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        every = sorted({word for bits in self.bits for word in reason_words(bits)})
        shares = {word: sum(word in reason_words(bits) for bits in self.bits) / len(self.bits) for word in every}
        facts = {
            "power_limit_w": limit_mw / 1e3 if limit_mw is not None else None,
            "energy_j": (self.energy_mj[-1][1] - self.energy_mj[0][1]) / 1e3 if len(self.energy_mj) > 1 else None,
            "throttle_share": shares if self.bits else None,
            "compute_processes_most": self.processes_most,
            ON_GPU: [names.get(pid, UNKNOWN) for pid in sorted(self.foreign)],
        }
        return {name: value for name, value in facts.items() if value is not None}


def worst_of(gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One summary of several GPUs that work on one trial: they wait for one another, so what holds one back holds all back.

    Shares of throttling are the highest of any; energy is that of all, and absent where one does not tell its own.
    """
    shares: dict[str, float] = {}
    for found in gpus:
        for word, share in found.get("throttle_share", {}).items():
            shares[word] = max(share, shares.get(word, 0.0))
    limits = [found["power_limit_w"] for found in gpus if "power_limit_w" in found]
    energies = [found["energy_j"] for found in gpus if "energy_j" in found]
    facts = {
        "power_limit_w": min(limits, default=None),
        "energy_j": sum(energies) if len(energies) == len(gpus) else None,
        "throttle_share": shares if any("throttle_share" in found for found in gpus) else None,
        "compute_processes_most": max(found["compute_processes_most"] for found in gpus),
        ON_GPU: [name for found in gpus for name in found[ON_GPU]],
    }
    return {name: value for name, value in facts.items() if value is not None}
