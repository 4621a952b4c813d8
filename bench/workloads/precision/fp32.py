"""Everything in fp32, products too."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["fp32"], passes=["step"])
def fp32(spec: Any) -> Numerics:
    return NUMERICS["fp32"]
