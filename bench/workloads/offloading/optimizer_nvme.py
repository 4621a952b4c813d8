"""Optimizer states and the fp32 copy of the weights lie in files, and pass through host memory for the update."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.offloading import DTYPES, STATES_TO_DISK, Offloading


@implementation(dtypes=DTYPES, passes=["step"], builds=["async_io"])
def optimizer_nvme(spec: Any) -> Offloading:
    from bench.workloads.offloading._operators import require_built

    require_built("async_io")
    return STATES_TO_DISK
