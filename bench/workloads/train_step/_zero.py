"""DeepSpeed's own settings of ZeRO as parameters of a step: they have a meaning only where a suite says `zero_options: set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.declare import Param
from bench.workloads.train_step._spec import ZeroOptions

_SET = ("zero_options", "set")

ZERO_PARAMS = (
    Param(
        "zero_options",
        str,
        default="defaults",
        choices=("defaults", "set"),
        description="whether the zero_* parameters hold, or DeepSpeed's own defaults: buckets of a GB and more, whatever the model",
    ),
    Param(
        "zero_reduce_bucket",
        int,
        default=500_000_000,
        minimum=1,
        only_where=_SET,
        description="elements of gradients that are reduced at a time (reduce_bucket_size)",
    ),
    Param(
        "zero_gather_bucket",
        int,
        default=500_000_000,
        minimum=1,
        only_where=_SET,
        description="elements of updated weights that are gathered at a time, stages 1 and 2 (allgather_bucket_size)",
    ),
    Param(
        "zero_overlap_comm",
        str,
        default="default",
        choices=("default", "on", "off"),
        only_where=_SET,
        description="whether gradients are reduced beside the backward; the default is on in stage 3 and off else (overlap_comm)",
    ),
    Param(
        "zero_contiguous_gradients",
        bool,
        default=True,
        only_where=_SET,
        description="whether gradients are copied into one buffer as they come (contiguous_gradients)",
    ),
    Param(
        "zero_prefetch_bucket",
        int,
        default=50_000_000,
        minimum=0,
        only_where=_SET,
        description="elements of weights that are fetched ahead of use, stage 3 (stage3_prefetch_bucket_size)",
    ),
    Param(
        "zero_persistence_threshold",
        int,
        default=100_000,
        minimum=0,
        only_where=_SET,
        description="elements up to which a weight is not partitioned, stage 3 (stage3_param_persistence_threshold)",
    ),
)


def zero_options(params: Mapping[str, Any]) -> ZeroOptions | None:
    """Of a case's parameters; None where DeepSpeed's defaults are wanted."""
    if params.get("zero_options", "defaults") == "defaults":
        return None
    return ZeroOptions(
        reduce_bucket=int(params["zero_reduce_bucket"]),
        gather_bucket=int(params["zero_gather_bucket"]),
        overlap_comm=str(params["zero_overlap_comm"]),
        contiguous_gradients=bool(params["zero_contiguous_gradients"]),
        prefetch_bucket=int(params["zero_prefetch_bucket"]),
        persistence_threshold=int(params["zero_persistence_threshold"]),
    )
