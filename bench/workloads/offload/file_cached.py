"""A file through the page cache: what the disk costs as long as RAM can pretend to be it."""

from __future__ import annotations

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.offload._place import OffloadSpec, Place
from bench.workloads.offload.file_direct import HOST_TO_DEVICE_AND_BACK


@implementation(
    passes=[Pass.FORWARD],
    proof={"cpu": {"ops": ["^aten::copy_$"]}, "cuda": {"kernels": [HOST_TO_DEVICE_AND_BACK], "not": ["Pageable"]}},
)
def file_cached(spec: OffloadSpec) -> Place:
    """A file in BENCH_OFFLOAD_DIR (or the temporary folder) with plain reads and writes, through a pinned buffer."""
    from bench.workloads.offload._file import FilePlace

    return FilePlace(spec, direct=False)
