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
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


def host_pinned_bytes() -> int | None:
    """Page-locked host memory in use by torch's allocator for it; None where this torch does not count it."""
    import torch

    stats = getattr(torch.cuda, "host_memory_stats", None)
    return int(stats()["allocated_bytes.current"]) if stats is not None else None
