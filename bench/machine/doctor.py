"""Is this host fit to measure: its processors, threads, neighbours, memory and compilers, read without touching torch."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.machine.conditions import STOLEN_SHARE, ConditionsSampler
from bench.machine.device import Device
from bench.machine.findings import Finding, ok, problem, warn

OLDEST_PYTHON = (3, 11)
LOOK_S = 1.0
"""How long neighbours are watched."""
BUSY_LOAD_SHARE = 0.5
LOW_MEMORY_BYTES = 2 * 2**30
LITTLE_DISK_BYTES = 2 * 2**30
NO_DISK_BYTES = 200 * 2**20
SYSTEM = Path("/sys")
PROC = Path("/proc")


def conditions_now(device: Device) -> dict[str, Any]:
    """What the sampler that runs beside every trial sees now."""
    with ConditionsSampler(device) as sampler:
        time.sleep(LOOK_S)
    return sampler.summary()


def python_findings() -> Iterator[Finding]:
    """The interpreter that measures."""
    version = platform.python_version()
    where = f"Python {version} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        yield problem("python", where, "install Python 3.11 or newer")
    else:
        yield ok("python", where)
    if sys.flags.optimize or sys.gettrace() is not None:
        yield warn("python", "Python runs optimised or under a debugger", "start it without -O, PYTHONOPTIMIZE and debuggers")


def processor_findings(conditions: Mapping[str, Any], system: Path = SYSTEM, proc: Path = PROC) -> Iterator[Finding]:
    """Cores that we may use, their quota and governor, and who else uses them."""
    allowed, there = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    cores = f"{allowed} of {there} cores may be used" if allowed < there else f"{there} cores, all may be used"
    yield ok("processor", cores + (" (an affinity mask pins us: taskset, a scheduler or a container)" if allowed < there else ""))
    quota = cpu_quota(system, proc)
    if quota is None:
        yield ok("processor", "no quota of a cgroup limits CPU time")
    elif quota < allowed:
        advice = "trials may be paused in the middle; ask for whole cores (a cpuset), or measure with as few threads"
        yield warn("processor", f"a cgroup limits us to {quota:g} cores' time on {allowed} cores", advice)
    else:
        yield ok("processor", f"the cgroup's quota of {quota:g} cores covers the {allowed} that we see")
    yield _governor(system)
    load = os.getloadavg()[0]
    busy = conditions.get("busy_processes") or []
    if busy:
        names = ", ".join(f"{entry['name']} ({entry['cores']:g} cores)" for entry in busy[:5])
        yield warn(
            "processor", f"others compute: {names}; load {load:.1f}", "wait for them to end, or move them to another machine"
        )
    elif load > BUSY_LOAD_SHARE * allowed:
        yield warn("processor", f"load {load:.1f} on {allowed} cores, with no busy process in sight", "wait until it falls")
    else:
        yield ok("processor", f"load {load:.1f}, no other busy process")
    stolen = float(conditions.get("cpu_stolen_share") or 0.0)
    if stolen > STOLEN_SHARE:
        yield warn("processor", f"the hypervisor takes {stolen:.0%} of the CPU time", "measure on a machine of your own")


def cpu_quota(system: Path = SYSTEM, proc: Path = PROC) -> float | None:
    """Cores' worth of CPU time that our cgroup may use, the least of all levels; None where there is no limit or none is told."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = system / "fs/cgroup" if not controllers else system / "fs/cgroup/cpu"
        folder = root / path.lstrip("/")
        for level in (folder, *folder.parents):
            quotas += _quota_of(level, unified=not controllers)
            if level == root:
                break
    return min(quotas, default=None)


def _quota_of(folder: Path, *, unified: bool) -> list[float]:
    try:
        if unified:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return [int(quota) / int(period)] if quota not in ("max", "-1") else []
    except (OSError, ValueError):
        return []  # this level has no such file


def _governor(system: Path) -> Finding:
    names = set()
    for path in system.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        try:
            names.add(path.read_text().strip())
        except OSError:
            continue
    if not names:
        return ok("processor", "the frequency governor is not told here (usual in virtual machines)")
    said = f"frequency governor: {', '.join(sorted(names))}"
    if names == {"performance"}:
        return ok("processor", said)
    return warn("processor", said, "sudo cpupower frequency-set -g performance steadies CPU times")


def thread_findings(variables: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Settings that reach into every trial's threads."""
    given = os.environ if variables is None else variables
    binding = [
        name for name in ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY") if given.get(name, "false") != "false"
    ]
    if binding:
        yield warn("threads", f"{', '.join(binding)} binds threads to cores", "unset it: bound to a busy core, every trial is slow")
    pools = {name: given[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in given}
    said = f" ({', '.join(f'{name}={value}' for name, value in pools.items())} is set here and replaced)" if pools else ""
    yield ok("threads", f"trials get the suite's number of threads, with OMP_WAIT_POLICY=passive{said}")
    for name in ("LD_PRELOAD", "PYTHONMALLOC", "MALLOC_CONF"):
        if given.get(name):
            yield warn(
                "threads", f"{name} is set and changes every trial's process", f"unset {name} unless that is what you measure"
            )


def memory_findings(proc: Path = PROC) -> Iterator[Finding]:
    """Memory that is available, and swap in use."""
    facts = {}
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        facts[name] = int(value.split()[0]) * 1024
    available, total = facts.get("MemAvailable", 0), facts["MemTotal"]
    said = f"{available / 2**30:.1f} of {total / 2**30:.1f} GiB of memory are available"
    if available < LOW_MEMORY_BYTES:
        yield warn("memory", said, "end what is not needed: trials may end as oom")
    else:
        yield ok("memory", said)
    swapped = facts.get("SwapTotal", 0) - facts.get("SwapFree", 0)
    if swapped > 0.02 * total:
        yield warn("memory", f"{swapped / 2**30:.1f} GiB are swapped out", "free memory: pages that come back cost milliseconds")
    else:
        yield ok("memory", "no swap in use" if swapped <= 0 else f"{swapped / 2**20:.0f} MiB are swapped out, which is little")


def disk_finding(area: str, name: str, path: Path) -> Finding:
    """Space and the right to write where `path` lies, or will lie."""
    folder = path
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    said = f"{name} {path}: {free / 2**30:.1f} GiB free"
    if not os.access(folder, os.W_OK):
        return problem(area, f"{said}, and {folder} cannot be written", "choose another place, or get the right to write")
    if free < NO_DISK_BYTES:
        return problem(area, said, "make room: rows, logs and compile caches go there")
    if free < LITTLE_DISK_BYTES:
        return warn(area, said, "make room: compile caches of a long run take gigabytes")
    return ok(area, said)


def compiler_findings(kind: str) -> Iterator[Finding]:
    """Compilers that techniques call when they are used. `kind` is the device's."""
    cxx, cc = os.environ.get("CXX") or "g++", os.environ.get("CC")
    if found := shutil.which(cxx):
        yield ok("compilers", f"C++ compiler: {found} (inductor on a CPU needs one)")
    else:
        yield warn("compilers", f"no C++ compiler {cxx}", "install g++: torch.compile on a CPU fails without")
    if kind != "cuda":
        return
    c_found = next((found for name in ([cc] if cc else ["gcc", "clang", "cc"]) if (found := shutil.which(name))), None)
    if c_found:
        yield ok("compilers", f"C compiler: {c_found} (Triton needs one)")
    else:
        yield problem(
            "compilers", "no C compiler (CC, gcc or clang)", "install gcc: Triton cannot launch a kernel without, nor can our clock"
        )
    nvcc = shutil.which("nvcc")
    yield ok("compilers", f"nvcc: {nvcc}" if nvcc else "no nvcc: only packages that are built from source need it")
