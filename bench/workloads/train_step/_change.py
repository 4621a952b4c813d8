"""What a builder of the slots compile, checkpointing, adaptation and qat returns: a change of the model, and how its state proves it.

Such changes run no kernel of their own, so no name under a profiler shows them. What shows them is what one step did: how often each
layer ran its forward, which weights got a gradient, which modules stand where. `proof` looks at that evidence and says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of one step over all its micro-batches."""

    model: Any
    accumulation: int
    runs: tuple[int, ...] | None
    """Forwards of each layer's attention; None where layers are compiled, and Python is not asked."""
    learned: tuple[str, ...]
    """Names of the weights that got a gradient."""
    frozen: tuple[str, ...]
    """Names of those that got none."""
    compiled_graphs: int
    """Graphs that torch.compile has made in this process. A frame may be traced and nothing in it compiled."""


@dataclass(frozen=True, slots=True)
class Change:
    """fn(model) -> model."""

    apply: Callable[[Any], Any]
    proof: Callable[[Evidence], str | None]
    """What the evidence lacks, in words; None where it shows the change."""
    keeps_apart: bool = False
    """Whether activations are kept where hooks on saved tensors do not see them."""

    def __call__(self, model: torch.nn.Module) -> torch.nn.Module:
        changed: torch.nn.Module = self.apply(model)
        return changed


def kept_apart(changes: Mapping[str, Any]) -> bool:
    """Whether one of the changes keeps activations where hooks do not see them."""
    return any(isinstance(change, Change) and change.keeps_apart for change in changes.values())


def unchanged(model: Any) -> Any:
    """The change that is none."""
    return model
