"""Samples what else went on beside a trial: load, other processes and frequencies, and on a GPU what NVML tells.

A daemon thread reads the cheap numbers about ten times a second. What is dear to read is read seldom: all processes only at the
start and at the end (a busy process is one whose CPU time grew), CPU frequencies once a second. Of other people's processes only
the name is kept, never the command line. What a machine does not tell is absent from the summary.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.machine.device import Device
from bench.machine.gpu_readings import GpuReadings, worst_of
from bench.machine.neighbours import Process, host_pids, ours, processes
from bench.machine.nvml import NvmlAbsent, NvmlBroken
from bench.machine.secrets import scrub
from bench.stats import median

INTERVAL_S = 0.1
SLOW_INTERVAL_S = 1.0
ENERGY_READINGS = 5
"""Of a GPU's energy counter for each reading of all else: how exactly energy is known hangs on how closely the counter is followed."""

BUSY_SHARE = 0.1
"""A process is busy above this share of one core."""
STOLEN_SHARE = 0.02
"""Of the CPU time, above which a hypervisor that takes it is told."""


@dataclass(slots=True)
class _Series:
    """Readings by name, in the order in which they were taken."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float | None) -> None:
        if value is not None:
            self.values.setdefault(name, []).append(float(value))

    def summary(self) -> dict[str, dict[str, float]]:
        return {name: {"min": min(v), "median": median(v), "max": max(v)} for name, v in sorted(self.values.items())}


def _cpu_ticks() -> tuple[int, int, int] | None:
    """Busy, stolen and all ticks of the whole machine since it started."""
    try:
        numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(numbers) < 8:
        return None
    idle = numbers[3] + numbers[4]
    return sum(numbers) - idle - numbers[7], numbers[7], sum(numbers)


def memory_available() -> int | None:
    """Bytes that the host could give without swapping; None where the kernel does not tell."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def _frequencies_hz(cpus: Iterable[int]) -> list[float]:
    found = []
    for cpu in cpus:
        try:
            found.append(int(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text()) * 1e3)
        except (OSError, ValueError):
            break
    if found:
        return found
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [float(line.split(":")[1]) * 1e6 for line in lines if line.startswith("cpu MHz")]


def _by_itself(found: Mapping[str, Any]) -> dict[str, Any]:
    """What one GPU of several says: who else computes there is counted, since the names stand beside it."""
    names = found["other_compute_processes"]
    return {name: value for name, value in found.items() if name != "other_compute_processes"} | {"others_computing": len(names)}


class ConditionsSampler:
    """Samples beside a trial while it is entered; `summary` afterwards.

        with ConditionsSampler(device) as sampler:
            ...
        conditions = sampler.summary()

    Readings are spread as {"min", "median", "max"}. A fault of NVML in the middle ends the GPU's readings, never the trial.

    Where several GPUs work on a trial (`further`), readings are spread over all of them, reasons are the worst of any, and each is told
    by itself under `gpus`, by its number.
    """

    def __init__(self, device: Device, *, further: Sequence[Device] = (), interval_s: float = INTERVAL_S) -> None:
        self._device = device
        self._further = tuple(further)
        self._interval_s = interval_s
        self._series = _Series()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._gpus: list[tuple[Device, GpuReadings, _Series]] = []
        self._gpu_error: str | None = None
        self._count = 0
        self._summary: dict[str, Any] = {}

    def __enter__(self) -> ConditionsSampler:
        if self._thread is not None:
            raise RuntimeError("a sampler serves one trial; make a new one")
        self._cpus = sorted(os.sched_getaffinity(0))
        self._first_processes = processes()
        self._first_ticks = _cpu_ticks()
        self._started = time.monotonic()
        for device in (self._device, *self._further) if self._device.kind == "cuda" else ():
            try:
                readings = GpuReadings(device)
                readings.look_at_processes(ours(self._first_processes, os.getpid()), first=True)
            except (NvmlAbsent, NvmlBroken, IndexError) as error:
                self._gpu_error = f"{device.torch_name}: {error}"
                continue
            self._gpus.append((device, readings, _Series()))
        self._read(slow=True)
        self._thread = threading.Thread(target=self._loop, name="conditions", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._read(slow=True)
        self._summary = self._summarise()

    def summary(self) -> dict[str, Any]:
        """JSON-ready facts of the time between entering and leaving; empty before leaving."""
        return self._summary

    @property
    def energy_mj(self) -> Sequence[tuple[float, int]]:
        """Readings of the first GPU's energy counter: (monotonic seconds, millijoules); none where there is no GPU that tells."""
        return next((gpu.energy_mj for device, gpu, _ in self._gpus if device == self._device), ())

    def _loop(self) -> None:
        slow_at = time.monotonic() + SLOW_INTERVAL_S
        parts = ENERGY_READINGS if self._gpus else 1
        for count in itertools.count(1):
            if self._stop.wait(self._interval_s / parts):
                return
            if count % parts:
                for _, gpu, _ in self._gpus:
                    gpu.read_energy()
                continue
            slow = time.monotonic() >= slow_at
            if slow:
                slow_at = time.monotonic() + SLOW_INTERVAL_S
            self._read(slow=slow)

    def _read(self, *, slow: bool) -> None:
        self._count += 1
        self._series.add("load_1min", os.getloadavg()[0])
        self._series.add("memory_available_bytes", memory_available())
        if slow:
            frequencies = _frequencies_hz(self._cpus)
            self._series.add("cpu_frequency_hz", median(frequencies) if frequencies else None)
        for _, gpu, own in self._gpus:
            gpu.read(self._adding_to(own))

    def _adding_to(self, own: _Series) -> Callable[[str, float | None], None]:
        def add(name: str, value: float | None) -> None:
            own.add(name, value)
            self._series.add(name, value)

        return add

    def _summarise(self) -> dict[str, Any]:
        elapsed_s = time.monotonic() - self._started
        now = processes()
        mine = ours(now, os.getpid()) | ours(self._first_processes, os.getpid())
        facts: dict[str, Any] = {"sampled_s": elapsed_s, "readings": self._count, **self._series.summary()}
        facts["busy_processes"] = self._busy(now, mine, elapsed_s)
        ticks = _cpu_ticks()
        if ticks and self._first_ticks and ticks[2] > self._first_ticks[2]:
            busy, stolen, every = (after - before for after, before in zip(ticks, self._first_ticks, strict=True))
            facts["machine_busy_share"] = busy / every
            facts["cpu_stolen_share"] = stolen / every
        if self._device.uuid is not None:
            facts["gpu_uuid"] = self._device.uuid
        names = {}
        if self._gpus and host_pids():
            names = {pid: scrub(process.name) for pid, process in {**self._first_processes, **now}.items()}
        told: dict[str, dict[str, Any]] = {}
        for device, gpu, own in self._gpus:
            gpu.look_at_processes(mine, first=False)
            told[str(device.index)] = gpu.summary(names) | own.summary()
        if told:
            facts |= worst_of(list(told.values()))
        if self._further:
            facts["gpus"] = {number: _by_itself(found) for number, found in told.items()}
        if self._gpu_error is not None:
            facts["nvml_error"] = self._gpu_error
        return facts

    def _busy(self, now: Mapping[int, Process], mine: set[int], elapsed_s: float) -> list[dict[str, Any]]:
        """Others' processes above `BUSY_SHARE` of a core, the busiest first. One that came and went in between is not seen."""
        found = []
        for pid, process in now.items():
            before = self._first_processes.get(pid)
            same = before is not None and before.started == process.started
            used_s = process.cpu_s - (before.cpu_s if before is not None and same else 0.0)
            if pid not in mine and elapsed_s > 0 and used_s / elapsed_s > BUSY_SHARE:
                found.append({"name": scrub(process.name), "cores": round(used_s / elapsed_s, 2)})
        return sorted(found, key=lambda entry: (-entry["cores"], entry["name"]))
