"""A file past the page cache, as offloading to NVMe needs it: the disk itself, whatever it is."""

from __future__ import annotations

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.offload._place import OffloadSpec, Place

HOST_TO_DEVICE_AND_BACK = r"Memcpy (HtoD \(Pinned -> Device\)|DtoH \(Device -> Pinned\))"


@implementation(
    passes=[Pass.FORWARD],
    proof={"cpu": {"ops": ["^aten::copy_$"]}, "cuda": {"kernels": [HOST_TO_DEVICE_AND_BACK], "not": ["Pageable"]}},
)
def file_direct(spec: OffloadSpec) -> Place:
    """A file in BENCH_OFFLOAD_DIR (or the temporary folder) with O_DIRECT, through a pinned buffer."""
    from bench.workloads.offload._file import FilePlace

    return FilePlace(spec, direct=True)
