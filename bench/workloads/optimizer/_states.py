"""Counts what an optimizer keeps, wherever it lies: plain tensors, the parts of wrapper tensors, managed memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def state_bytes(optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    """Bytes of all tensors in `optimizer.state`, and the part of them in host or managed memory.

    Storages are counted once (bitsandbytes shares its code book among all states). Paged states are host tensors over CUDA's
    managed memory, whose pages come and go: they count as host memory, wherever their pages are now. A CPU has nothing but host
    memory.
    """
    sizes: dict[int, tuple[int, bool]] = {}
    for tensor in _plain_tensors(optimizer.state):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = (storage.nbytes(), tensor.device.type == "cpu")
    return sum(size for size, _ in sizes.values()), sum(size for size, on_host in sizes.values() if on_host)


def _plain_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor within mappings and sequences; of a wrapper (a quantized state of torchao, a DTensor) those that it wraps."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if isinstance(value, Mapping):
        for part in value.values():
            yield from _plain_tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _plain_tensors(part)
    elif is_traceable_wrapper_subclass(value):
        names, _ = value.__tensor_flatten__()
        for name in names:
            yield from _plain_tensors(getattr(value, name))
    elif isinstance(value, torch.Tensor) and value.numel():
        yield value
