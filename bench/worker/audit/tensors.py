"""Counts tensors by dtype and place, whatever they are made of: shards, quantized weights, pages of the driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from bench.audited import Tensors


def counted(tensors: Iterable[torch.Tensor], what: str = "") -> tuple[Tensors, ...]:
    """One entry for each dtype and place; a tensor that comes twice counts once."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for tensor in {id(tensor): tensor for tensor in tensors}.values():
        entry = sums[dtype_of(tensor), place_of(tensor)]
        entry[0] += 1
        entry[1] += local_elements(tensor)
        entry[2] += stored_bytes(tensor)
    rows = [Tensors(dtype, place, entry[0], entry[1], entry[2], what) for (dtype, place), entry in sums.items()]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def dtype_of(tensor: torch.Tensor) -> str:
    """Its dtype; of a quantized tensor its class, since the dtype that it shows is not what it stores."""
    kind = type(tensor)
    if hasattr(tensor, "__tensor_flatten__") and kind.__name__ not in ("DTensor", "TwoTensor"):
        return kind.__name__
    return str(tensor.dtype).removeprefix("torch.")


def place_of(tensor: torch.Tensor) -> str:
    if getattr(tensor, "is_paged", False):
        return "managed"
    device = tensor.device.type
    return "cpu pinned" if device == "cpu" and torch.cuda.is_initialized() and tensor.is_pinned() else device


def parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors that it consists of, those that a quantization keeps beside it included."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        for name in flatten()[0]:
            inner = getattr(tensor, name)
            if isinstance(inner, torch.Tensor):  # a sharded one names its mesh too
                yield from parts(inner)
        return
    shard = getattr(tensor, "ds_tensor", None)
    yield shard if isinstance(shard, torch.Tensor) and not tensor.numel() else tensor
    yield from _beside(tensor)


def _beside(tensor: Any) -> Iterator[torch.Tensor]:
    """bitsandbytes keeps scales in attributes of the weight."""
    state = getattr(tensor, "quant_state", None)
    while state is not None:
        for name in ("absmax", "code", "offset"):
            value = getattr(state, name, None)
            if isinstance(value, torch.Tensor):
                yield value
        state = getattr(state, "state2", None)
    for name in ("CB", "SCB"):
        value = getattr(tensor, name, None)
        if isinstance(value, torch.Tensor) and value is not tensor:
            yield value


def stored_bytes(tensor: torch.Tensor) -> int:
    """What it holds in this process."""
    seen: dict[int, int] = {}
    for part in parts(tensor):
        key = part.data_ptr() if part.device.type != "meta" and part.numel() else id(part)
        seen[key] = part.numel() * part.element_size()
    return sum(seen.values())


def local_elements(tensor: torch.Tensor) -> int:
    """Numbers that this process has of it; of a quantized one, those that it stands for."""
    state = getattr(tensor, "quant_state", None)
    if state is not None:
        return _product(state.shape)
    sharded: Any = tensor
    if hasattr(sharded, "to_local"):
        return int(sharded.detach().to_local().numel())
    shard = getattr(tensor, "ds_tensor", None)
    return int(shard.numel()) if isinstance(shard, torch.Tensor) and not tensor.numel() else int(tensor.numel())


def whole_elements(tensor: torch.Tensor) -> int:
    """Numbers of the whole tensor, shared among ranks or not."""
    state = getattr(tensor, "quant_state", None)
    if state is not None:
        return _product(state.shape)
    return int(getattr(tensor, "ds_numel", None) or tensor.numel())


def _product(shape: Iterable[int]) -> int:
    size = 1
    for length in shape:
        size *= int(length)
    return size
