"""The driver of one process that keeps everything, but for an optimizer that works on the host."""

from __future__ import annotations

from typing import Any

from bench.workloads.offloading._torchao import HostOptimizer, refuse_what_comes_too_late
from bench.workloads.sharding._bytes import host_pinned_bytes, host_resident_bytes
from bench.workloads.sharding._holdings import refuse_offloading
from bench.workloads.train_step._driver import Driver, Parts
from bench.workloads.train_step._update import Update


def drive(parts: Parts) -> Driver:
    """Raises Unsupported for what only an engine, or fully_shard, takes off the device."""
    if parts.offloading.states == "torchao":
        return HostUpdated(parts)
    refuse_offloading(parts, "sharding=none")
    return Driver(parts)


class HostUpdated(Driver):
    """With states and an update on the host, by torchao."""

    def __init__(self, parts: Parts) -> None:
        refuse_what_comes_too_late(parts.numerics, parts.spec.clip_norm)

        def make(weights: list[Any]) -> Any:
            return HostOptimizer(weights, parts.recipe)

        super().__init__(parts, Update(parts.numerics, parts.learned, make, clip_norm=0.0))

    def findings(self) -> dict[str, float]:
        found = {"host_resident_bytes": host_resident_bytes(), "host_pinned_bytes": host_pinned_bytes()}
        return {name: float(value) for name, value in found.items() if value is not None}
