"""What lies off the GPU, as `bench plan` tells it: of the host's memory and on disk, for one GPU and for those that share a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.cli.terminal import say
from bench.plan.devices import Host, parse_size
from bench.plan.rounding import PROCESS_BYTES, host_needed_bytes
from bench.plan.spec import PlanError
from bench.plan.terms import DISK, HOST, PINNED

if TYPE_CHECKING:
    from bench.plan.terms import Prediction

GIB = 2**30
PLACES = {HOST: "host", PINNED: "host, page-locked", DISK: "disk"}
GPUS_PER_HOST = 8
"""As most hosts have them at the most."""


def host_of(memory: str | None, gpus: int | None, world_size: int) -> Host:
    """From what was said. Raises PlanError for a size that is none, and for more GPUs on a host than train."""
    if gpus is not None and gpus > world_size:
        raise PlanError(f"--gpus-per-host {gpus}: only {world_size} train together; --world-size says how many do")
    return Host(None if memory is None else parse_size(memory), gpus or min(world_size, GPUS_PER_HOST))


def show(prediction: Prediction, host: Host) -> None:
    """Nothing where all lies on the GPU and nobody asks."""
    if prediction.host_bytes:
        say(
            f"host memory for this GPU {prediction.host_bytes / GIB:.2f} GiB, {prediction.pinned_bytes / GIB:.2f} GiB of it page-locked"
        )
    if prediction.disk_bytes:
        of_host = "" if host.gpus == 1 else f", for {host.gpus} such GPUs {host.gpus * prediction.disk_bytes / GIB:.2f} GiB"
        say(f"on disk for this GPU {prediction.disk_bytes / GIB:.2f} GiB{of_host}")
    if not prediction.away and host.memory_bytes is None:
        return
    needed = host_needed_bytes(prediction.host_bytes, host.gpus)
    who, process = ("the host", "the process") if host.gpus == 1 else (f"a host of {host.gpus} such GPUs", "each process")
    say(f"{who} needs {needed / GIB:.1f} GiB of memory, some {PROCESS_BYTES / GIB:g} GiB of it for {process} itself")
    if host.memory_bytes is not None:
        say(f"which {'fits into' if needed <= host.memory_bytes else 'is more than'} the host's {host.memory_bytes / GIB:.1f} GiB")


def terms(prediction: Prediction) -> list[tuple[str, str, str, str, str]]:
    """Rows for the table of terms."""
    return [
        (kept.name, PLACES[kept.place], f"{kept.size_bytes / GIB:.4f}", kept.formula, kept.source)
        for kept in sorted(prediction.away, key=lambda kept: -kept.size_bytes)
    ]


def as_json(prediction: Prediction, host: Host) -> dict[str, Any]:
    """For this GPU, and for those of a host together."""
    from dataclasses import asdict

    needed = host_needed_bytes(prediction.host_bytes, host.gpus)
    return {
        "host_bytes": prediction.host_bytes,
        "pinned_bytes": prediction.pinned_bytes,
        "disk_bytes": prediction.disk_bytes,
        "away": [asdict(kept) for kept in prediction.away],
        "host": {
            "gpus": host.gpus,
            "needed_bytes": needed,
            "disk_bytes": host.gpus * prediction.disk_bytes,
            "memory_bytes": host.memory_bytes,
            "fits": None if host.memory_bytes is None else needed <= host.memory_bytes,
        },
    }
