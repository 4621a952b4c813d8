"""torch's fully_shard by layer: embedding, last norm and head stay in the root, whole from the forward to the end of the backward."""

from __future__ import annotations

import functools
from typing import Any

from bench.declare import implementation
from bench.workloads.sharding import DTYPES, NO_DTENSOR, Sharding


@implementation(dtypes=DTYPES, passes=["step"], refuses=NO_DTENSOR)
def fsdp2_root_unit(spec: Any) -> Sharding:
    from bench.workloads.sharding._group import join
    from bench.workloads.sharding._native import FullySharded

    return Sharding(functools.partial(FullySharded, root_holds_ends=True), join)
