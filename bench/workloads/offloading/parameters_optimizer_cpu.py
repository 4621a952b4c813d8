"""Weights too lie in host memory, and each layer's come to the device when it is their turn."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.offloading import ALL_TO_HOST, DTYPES, Offloading


@implementation(dtypes=DTYPES, passes=["step"])
def parameters_optimizer_cpu(spec: Any) -> Offloading:
    return ALL_TO_HOST
