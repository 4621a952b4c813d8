"""Everything in fp16, the optimizer's states too: what nobody should do, and what shows why."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["fp16"], passes=["step"])
def fp16_pure(spec: Any) -> Numerics:
    return NUMERICS["fp16_pure"]
