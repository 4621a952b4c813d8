"""ZeRO stage 3: weights too are shared out, and gathered where they are used."""

from __future__ import annotations

import functools
from typing import Any

from bench.declare import implementation
from bench.workloads.sharding import DTYPES, ENGINE_REQUIRES, Sharding
from bench.workloads.sharding._config import REFUSES


@implementation(requires=ENGINE_REQUIRES, dtypes=DTYPES, passes=["step"], refuses=REFUSES)
def zero3(spec: Any) -> Sharding:
    from bench.workloads.sharding._engine import Engine, join

    return Sharding(functools.partial(Engine, stage=3), join)
