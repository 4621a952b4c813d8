"""What a batch is made of: how many tokens, and how many of them teach nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

IGNORED_LABEL = -100
_IDS = ("input_ids", "inputs_embeds", "tokens", "input")
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch."""

    shape: tuple[int, ...]
    """(batch, sequence); of packed sequences without a batch dimension, its length."""
    tokens: int
    padding: int | None
    """None where no mask and no padding token tells."""
    labels: int | None
    ignored_labels: int | None


def look_at(data: Any, model: Any = None, *, host_only: bool = False) -> Batch | None:
    """What a batch from a loader, or the arguments of a model's call, hold; None where no tokens are to be seen.

    On a device the counts wait for it: `host_only` looks at tensors in the host's memory alone.
    """
    named = dict(_named(data, _DEEPEST))
    ids = next((named[name] for name in _IDS if name in named), None)
    if ids is None:
        ids = next((tensor for tensor in named.values() if tensor.ndim == 2 and not tensor.is_floating_point()), None)
    if ids is None or ids.ndim not in ((3,) if ids.is_floating_point() else (1, 2)):
        return None  # pictures, or columns of numbers
    shape = tuple(ids.shape[:2]) if ids.ndim > 1 else tuple(ids.shape)
    tokens = 1
    for size in shape:
        tokens *= int(size)
    if host_only and ids.device.type != "cpu":
        return Batch(shape, tokens, None, None, None)
    labels = named.get("labels")
    counted = labels is not None and not labels.is_floating_point()
    ignored = int((labels == IGNORED_LABEL).sum()) if counted and labels is not None else None
    return Batch(
        shape, tokens, _padding(named, ids, model), int(labels.numel()) if counted and labels is not None else None, ignored
    )


def _padding(named: Mapping[str, torch.Tensor], ids: torch.Tensor, model: Any) -> int | None:
    """Tokens that the mask excludes; without one, padding tokens at the ends of rows, where nothing else ends rows by them."""
    mask = named.get("attention_mask")
    if mask is not None and mask.ndim == 2:
        return int((mask == 0).sum())
    config = getattr(model, "config", None)
    token = getattr(config, "pad_token_id", None)
    if isinstance(token, int) and token != getattr(config, "eos_token_id", None) and not ids.is_floating_point():
        at_ends = [(rows == token).cumprod(-1).sum() for rows in (ids, ids.flip(-1))]
        return min(int(at_ends[0] + at_ends[1]), ids.numel())
    return None


def _named(data: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors by name, those of sequences by their number."""
    if depth < 0:
        return
    items = (
        data.items()
        if isinstance(data, Mapping)
        else ((str(number), value) for number, value in enumerate(data))
        if isinstance(data, tuple | list)
        else ()
    )
    for name, value in items:
        if isinstance(value, torch.Tensor):
            yield str(name), value
        else:
            yield from _named(value, depth - 1)
