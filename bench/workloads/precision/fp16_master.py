"""Weights and gradients in fp16 under dynamic loss scaling, updated through an fp32 copy of the weights."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["fp16"], passes=["step"])
def fp16_master(spec: Any) -> Numerics:
    return NUMERICS["fp16_master"]
