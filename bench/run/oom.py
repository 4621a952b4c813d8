"""Tells a process that the kernel killed for memory from one that somebody killed."""

from __future__ import annotations

from pathlib import Path


def _counter(path: Path, key: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(value) for name, value in (line.split() for line in lines if len(line.split()) == 2) if name == key), 0)


def oom_kills() -> int:
    """How many processes the kernel has killed for memory: in our control group and its parents (cgroup v2, v1), and on the host.

    Only a difference of two calls means anything. Counters that do not exist here count as 0.
    """
    total = _counter(Path("/proc/vmstat"), "oom_kill")
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return total
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        file = "memory.oom_control" if controllers else "memory.events"
        relative = Path(path.lstrip("/"))
        for folder in (relative, *relative.parents):
            total += _counter(root / folder / file, "oom_kill")
    return total
