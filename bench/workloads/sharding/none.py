"""One process keeps everything."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.sharding import Sharding


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def none(spec: Any) -> Sharding:
    from bench.workloads.sharding._alone import drive
    from bench.workloads.sharding._group import alone

    return Sharding(drive, alone)
