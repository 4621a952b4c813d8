"""Optimizer states and a copy of the weights lie in pinned host memory, one tensor after the other is updated there: torchao's way."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.offloading import DTYPES, STATES_TO_HOST_BY_TORCHAO, Offloading


@implementation(requires=["torchao>=0.18"], devices=["cuda"], dtypes=DTYPES, passes=["step"])
def optimizer_cpu_ao(spec: Any) -> Offloading:
    return STATES_TO_HOST_BY_TORCHAO
