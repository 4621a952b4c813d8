"""Autocast to bf16 over fp32 weights; bf16 reaches as far as fp32, so nothing is scaled."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.precision import NUMERICS, Numerics


@implementation(dtypes=["bf16"], passes=["step"])
def bf16_amp(spec: Any) -> Numerics:
    return NUMERICS["bf16_amp"]
