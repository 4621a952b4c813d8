"""int4 weights, 32 of which share a scale; activations stay as they are."""

from __future__ import annotations

import functools
from typing import Any

from bench.declare import implementation
from bench.workloads.qat._torchao import REQUIRES, quantize


@implementation(requires=REQUIRES, dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def int4(spec: Any) -> Any:
    return functools.partial(quantize, kind="int4")
