"""The driver of one process that keeps everything."""

from __future__ import annotations

from bench.workloads.sharding._holdings import refuse_offloading
from bench.workloads.train_step._driver import Driver, Parts


def drive(parts: Parts) -> Driver:
    """Raises Unsupported for what only an engine, or fully_shard, takes off the device."""
    refuse_offloading(parts, "sharding=none")
    return Driver(parts)
