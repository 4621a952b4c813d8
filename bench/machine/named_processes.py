"""The processes of others, as the conditions of a row tell them."""

from __future__ import annotations

from bench.records import Json

BUSY, ON_GPU = "busy_processes", "other_compute_processes"
"""The conditions that tell of those that were busy on the CPU, and of those that had the GPU open for computing."""
UNKNOWN = "unknown"
"""The name of a process that NVML tells by a number of the host alone."""
OTHER = "other"
"""What stands for a name in rows that are published."""


def process_names(told: Json) -> tuple[str, ...]:
    """The names in one of these conditions, a list of names or of `{name: ..., cores: ...}`; none where it is no list."""
    entries = told if isinstance(told, list | tuple) else ()
    return tuple(str(entry.get("name", "?")) if isinstance(entry, dict) else str(entry) for entry in entries)
