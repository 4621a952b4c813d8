"""Counts the memory behind tensors on this rank: of a sharded one its own part, storages once and whole. And what the host holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def plain_tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors with memory of their own within mappings, sequences and tensors that wrap others."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from plain_tensors(part)
    elif is_traceable_wrapper_subclass(value):
        for name in value.__tensor_flatten__()[0]:
            yield from plain_tensors(getattr(value, name))
    elif isinstance(value, torch.Tensor):
        yield value


def stored_bytes(tensors: Iterable[Any], *, device: str | None = None) -> int:
    """Bytes of all their storages; `device`: only those of that type."""
    sizes: dict[tuple[str, int], int] = {}
    for tensor in plain_tensors(list(tensors)):
        storage = tensor.untyped_storage()
        if storage.nbytes() and device in (None, tensor.device.type):
            sizes[tensor.device.type, storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def host_resident_bytes() -> int:
    """Host memory that this process has in use now, code and libraries included; what the C library keeps counts too."""
    return _status_bytes("VmRSS")


def host_pinned_bytes() -> int | None:
    """Page-locked host memory of this process; None where this torch does not count its own.

    Two who lock pages are known. torch's allocator, which rounds each request up to a power of two and keeps what is given back: all
    that it holds is pinned. And libraries by mlock, such as DeepSpeed's file operators, which the kernel counts.
    """
    import torch

    read = getattr(torch.cuda, "host_memory_stats", None)
    if read is None:
        return None
    stats = read()
    # In releases with `active_bytes` the allocator's whole is called `allocated_bytes`; older ones call so what is in use.
    whole = "allocated_bytes" if "active_bytes.current" in stats else "reserved_bytes"
    owned = stats.get(f"{whole}.current")
    return None if owned is None else int(owned) + _status_bytes("VmLck")


def _status_bytes(name: str) -> int:
    """What the kernel says of this process under a name. Raises OSError where it says nothing."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")
