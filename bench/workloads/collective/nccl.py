"""NCCL, between GPUs, over whatever links them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation

if TYPE_CHECKING:
    from bench.workloads.collective import CollectiveSpec


@implementation(
    devices=["cuda"], dtypes=["fp32", "bf16", "fp16"], passes=["forward"], proof={"kernels": ["ncclDevKernel"], "not": ["^gloo:"]}
)
def nccl(spec: CollectiveSpec) -> Any:
    from bench.workloads.collective._calls import call_of

    return call_of(spec)
