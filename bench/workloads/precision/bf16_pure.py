"""Everything in bf16, the optimizer's states too: 8 bytes a parameter, and updates below a weight's last bit are lost."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["bf16"], passes=["step"])
def bf16_pure(spec: Any) -> Numerics:
    return NUMERICS["bf16_pure"]
