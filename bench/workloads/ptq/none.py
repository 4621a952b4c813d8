"""The trained model stays as it is, unless it was trained for a format."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.train_step._change import unchanged


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def none(spec: Any) -> Any:
    return unchanged
