"""Counts what a layer holds in memory, wherever its library keeps it: parameters, scales, tables, states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def held_bytes(layer: torch.nn.Module) -> int:
    """Bytes of all storages that tensors reachable from the layer lie in, each once and whole."""
    storages = {}
    for tensor in _tensors(layer):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _tensors(root: Any) -> Iterator[torch.Tensor]:
    """The tensors with memory of their own: of a wrapping subclass those that it wraps.

    Quantized parameters carry their scales as plain attributes, so attributes of tensors and of states are followed too.
    """
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    waiting, seen = [root], set()
    while waiting:
        found: Any = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if is_traceable_wrapper_subclass(found):
            waiting += [getattr(found, name) for name in found.__tensor_flatten__()[0]]
        elif isinstance(found, torch.Tensor):
            yield found
        if isinstance(found, Mapping):
            waiting += found.values()
        elif isinstance(found, list | tuple | set | frozenset):
            waiting += found
        elif not callable(found) or isinstance(found, torch.nn.Module):
            waiting += getattr(found, "__dict__", {}).values()
