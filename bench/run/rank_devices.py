"""Which GPUs the ranks of a trial take: the first ones, in order."""

from __future__ import annotations

from bench.errors import DeviceError
from bench.machine import Device, find_device


def gpus_of_ranks(device: Device, ranks: int) -> list[Device]:
    """The device, and the GPUs of further ranks: as many as there are, since a trial says itself that it has too few.

    Ranks begin with the first GPU; on another one a trial refuses to have any. On a CPU all share it.
    """
    found = [device]
    for index in range(1, ranks if device.torch_name == "cuda:0" else 1):
        try:
            found.append(find_device(f"cuda:{index}"))
        except DeviceError:
            break
    return found
