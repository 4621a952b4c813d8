"""Describes the optimizers that were seen at work: their options, and what they keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.optim.optimizer import _default_to_fused_or_foreach

from bench.audited import Optimizer
from bench.worker.audit.asked import plain
from bench.worker.audit.scene import package_of
from bench.worker.audit.tensors import counted, local_elements

_NESTED = 4


def parameters_of(optimizer: Any) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def states_of(optimizer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of all that it keeps for its parameters."""
    for state in optimizer.state.values():
        if isinstance(state, Mapping):
            for name, value in state.items():
                for tensor in _within(value, _NESTED):
                    yield str(name), tensor


def _within(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, Mapping):
        for inner in value.values():
            yield from _within(inner, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for inner in value:
            yield from _within(inner, depth - 1)


def describe_optimizers(optimizers: Iterable[Any], wrapped_by: str | None) -> tuple[Optimizer, ...]:
    """One entry for each class with equal options; one optimizer for each parameter is common where updates are made in the backward."""
    groups: dict[tuple[type, tuple[tuple[str, Any], ...]], list[Any]] = defaultdict(list)
    for optimizer in optimizers:
        options = plain((name, value) for name, value in optimizer.param_groups[0].items() if name != "params")
        groups[type(optimizer), tuple(sorted(options.items()))].append(optimizer)
    return tuple(_described(kind, dict(options), same, wrapped_by) for (kind, options), same in groups.items())


def _described(kind: type, options: dict[str, Any], same: list[Any], wrapped_by: str | None) -> Optimizer:
    first = same[0]
    foreach, fused = _ways(first, options)
    by_name: dict[str, list[torch.Tensor]] = defaultdict(list)
    for optimizer in same:
        for name, tensor in states_of(optimizer):
            by_name[name].append(tensor)
    states = tuple(row for name, tensors in by_name.items() for row in counted(tensors, name))
    given = sum(local_elements(parameter) for optimizer in same for parameter in parameters_of(optimizer))
    arguments = getattr(first, "args", None)
    bits = getattr(arguments, "optim_bits", None)
    smallest = getattr(arguments, "min_8bit_size", None)
    return Optimizer(
        class_name=kind.__name__,
        package=package_of(kind.__module__),
        instances=len(same),
        groups=sum(len(optimizer.param_groups) for optimizer in same),
        options=options,
        # ZeRO lends its optimizer the parameters for the update only: between updates the states tell how many there are.
        elements=max([given, *(row.elements for row in states)]),
        states=states,
        foreach=foreach,
        fused=fused,
        optimizer_bits=bits if isinstance(bits, int) else None,
        small_tensor_elements=smallest if isinstance(smallest, int) and bits == 8 else None,
        paged=getattr(first, "is_paged", None),
        inner_of=wrapped_by,
    )


def _ways(optimizer: Any, options: Mapping[str, Any]) -> tuple[bool | None, bool | None]:
    """Whether it works foreach and whether fused: what it was told, else what torch chooses for these parameters."""
    if package_of(type(optimizer).__module__) != "torch" or "foreach" not in options:
        return (None, None)
    foreach, fused = options["foreach"], options.get("fused")
    if foreach is None and fused is None:
        some = list(parameters_of(optimizer))
        if not some:
            return (None, None)
        fused, foreach = _default_to_fused_or_foreach(some, bool(options.get("differentiable", False)), use_fused=False)
    return bool(foreach), bool(fused)
