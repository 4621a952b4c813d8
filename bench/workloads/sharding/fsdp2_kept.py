"""torch's fully_shard by unit, with the weights kept whole between forward and backward: less to communicate, more to hold."""

from __future__ import annotations

import functools
from typing import Any

from bench.declare import implementation
from bench.workloads.sharding import DTYPES, NO_DTENSOR, Sharding


@implementation(dtypes=DTYPES, passes=["step"], refuses=NO_DTENSOR)
def fsdp2_kept(spec: Any) -> Sharding:
    from bench.workloads.sharding._group import join
    from bench.workloads.sharding._native import FullySharded

    return Sharding(functools.partial(FullySharded, reshard_after_forward=False), join)
