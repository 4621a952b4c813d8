"""Optimizer states and the fp32 copy of the weights lie in host memory, and the update is computed there."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.offloading import DTYPES, STATES_TO_HOST, Offloading


@implementation(dtypes=DTYPES, passes=["step"])
def optimizer_cpu(spec: Any) -> Offloading:
    return STATES_TO_HOST
