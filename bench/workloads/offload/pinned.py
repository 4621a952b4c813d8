"""Page-locked host memory, copied to and from by the device's own copy engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import dtype_bytes, implementation, torch_dtype
from bench.records import Pass
from bench.workloads.offload._place import OffloadSpec, Place

if TYPE_CHECKING:
    import torch


@implementation(
    devices=["cuda"],
    passes=[Pass.FORWARD],
    proof={"kernels": [r"Memcpy (HtoD \(Pinned -> Device\)|DtoH \(Device -> Pinned\))"], "not": ["Pageable"]},
)
def pinned(spec: OffloadSpec) -> Place:
    """A pinned tensor and `copy_(non_blocking=True)`: the host only enqueues."""
    import torch

    buffer = torch.empty(spec.bytes // dtype_bytes(spec.dtype), dtype=torch_dtype(spec.dtype), pin_memory=True)

    class Pinned:
        def store(self, block: torch.Tensor) -> None:
            buffer.copy_(block, non_blocking=True)

        def load(self, out: torch.Tensor) -> None:
            out.copy_(buffer, non_blocking=True)

        def describe(self) -> str:
            return "pinned host memory"

    return Pinned()
