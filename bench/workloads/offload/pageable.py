"""Ordinary host memory. The driver copies it through a small pinned buffer of its own, and the host waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import dtype_bytes, implementation, torch_dtype
from bench.records import Pass
from bench.workloads.offload._place import OffloadSpec, Place

if TYPE_CHECKING:
    import torch


@implementation(
    passes=[Pass.FORWARD],
    proof={
        "cpu": {"ops": ["^aten::copy_$"]},
        "cuda": {"kernels": [r"Memcpy (HtoD \(Pageable -> Device\)|DtoH \(Device -> Pageable\))"], "not": ["Pinned"]},
    },
)
def pageable(spec: OffloadSpec) -> Place:
    """A plain tensor and `copy_`, as `.cpu()` and `.to(device)` do it; on a CPU a copy from RAM to RAM."""
    import torch

    buffer = torch.empty(spec.bytes // dtype_bytes(spec.dtype), dtype=torch_dtype(spec.dtype))

    class Pageable:
        def store(self, block: torch.Tensor) -> None:
            buffer.copy_(block)

        def load(self, out: torch.Tensor) -> None:
            out.copy_(buffer)

        def describe(self) -> str:
            return "pageable host memory"

    return Pageable()
