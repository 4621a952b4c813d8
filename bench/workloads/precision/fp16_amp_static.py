"""Autocast to fp16 over fp32 weights, the loss times a fixed 1024."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["fp16"], passes=["step"])
def fp16_amp_static(spec: Any) -> Numerics:
    return NUMERICS["fp16_amp_static"]
