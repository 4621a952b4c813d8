"""Everything in fp32, products in tf32: how CUDA devices multiply fp32 tensors fast."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["tf32"], passes=["step"])
def tf32(spec: Any) -> Numerics:
    return NUMERICS["tf32"]
