"""W8A8: int8 weights with a scale a row, and activations rounded to int8 token by token as they come."""

from __future__ import annotations

import functools
from typing import Any

from bench.declare import implementation
from bench.workloads.qat._torchao import REQUIRES, quantize


@implementation(requires=REQUIRES, dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def int8_dynamic(spec: Any) -> Any:
    return functools.partial(quantize, kind="int8_dynamic")
