"""Everything stays on the device."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.offloading import DTYPES, NOTHING, Offloading


@implementation(dtypes=DTYPES, passes=["step"])
def none(spec: Any) -> Offloading:
    return NOTHING
