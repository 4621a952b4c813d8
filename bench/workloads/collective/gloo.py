"""gloo, between the memories of hosts, over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation

if TYPE_CHECKING:
    from bench.workloads.collective import CollectiveSpec


@implementation(
    devices=["cpu"],
    dtypes=["fp32", "bf16", "fp16"],
    passes=["forward"],
    proof={"ops": ["^c10d::(allreduce_|_allgather_base_|_reduce_scatter_base_)$"]},
)
def gloo(spec: CollectiveSpec) -> Any:
    from bench.workloads.collective._calls import call_of

    return call_of(spec)
