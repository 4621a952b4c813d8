"""Weights and gradients in bf16, updated through an fp32 copy of the weights."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["bf16"], passes=["step"])
def bf16_master(spec: Any) -> Numerics:
    return NUMERICS["bf16_master"]
