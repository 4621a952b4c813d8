"""Looks at the machine's processes through /proc: who runs, for how long, and which of them are ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    name: str
    parent: int
    cpu_s: float
    started: int


def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")


def _parse_stat(line: str) -> Process:
    # The name stands in brackets and may itself hold brackets and spaces.
    name, rest = line[line.index("(") + 1 : line.rindex(")")], line[line.rindex(")") + 2 :].split()
    return Process(name=name, parent=int(rest[1]), cpu_s=(int(rest[11]) + int(rest[12])) / _ticks_per_s(), started=int(rest[19]))


def processes() -> dict[int, Process]:
    """All processes by pid. The name is the kernel's (15 characters), never the command line."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = _parse_stat(Path(entry.path, "stat").read_text(errors="replace"))
            except (OSError, ValueError):
                continue  # it ended while we looked
    return found


def ours(found_processes: Mapping[int, Process], root: int) -> set[int]:
    """`root` and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in found_processes.items():
        children.setdefault(process.parent, []).append(pid)
    found, todo = set(), [root]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found


def host_pids() -> bool:
    """Whether this process lives in the machine's first pid namespace, where NVML's pids mean what they say."""
    try:
        return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    except OSError:
        return False
