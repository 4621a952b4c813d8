"""torch's fully_shard: each layer, the embedding, and the head with the last norm are a unit each."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.sharding import DTYPES, NO_DTENSOR, Sharding


@implementation(dtypes=DTYPES, passes=["step"], refuses=NO_DTENSOR)
def fsdp2(spec: Any) -> Sharding:
    from bench.workloads.sharding._group import join
    from bench.workloads.sharding._native import FullySharded

    return Sharding(FullySharded, join)
