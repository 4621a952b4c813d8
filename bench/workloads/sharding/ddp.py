"""torch's DistributedDataParallel: every rank keeps everything, and gradients are summed in buckets while the backward runs."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.sharding import DTYPES, Sharding


@implementation(dtypes=DTYPES, passes=["step"])
def ddp(spec: Any) -> Sharding:
    """Gradients are views of the buckets (`gradient_as_bucket_view`), so that they exist once; micro-batches before the last send none."""
    from bench.workloads.sharding._group import join
    from bench.workloads.sharding._native import DataParallel

    return Sharding(DataParallel, join)
