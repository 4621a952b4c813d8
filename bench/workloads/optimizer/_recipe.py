"""What builders of this slot get and return: the frozen spec, and the recipe that names its algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.declare import Unsupported

if TYPE_CHECKING:
    import torch

ALGORITHMS = ("adamw", "lion", "muon", "adafactor", "sgd")
"""What `_algorithms.py` has a reference of."""


@dataclass(frozen=True, slots=True)
class OptimizerSpec:
    """How parameters are to be updated. Hyper-parameters mean what the algorithm of a recipe makes of them."""

    dtype: str
    """Of parameters and gradients."""
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    """Of AdamW."""
    eps: float = 1e-8
    """Of AdamW, beside the corrected root of the second moment."""
    weight_decay: float = 0.01
    """Times `lr`, taken off the parameters before the update; for SGD times the parameters, added to the gradient."""
    momentum: float = 0.9
    """Of SGD."""
    lion_betas: tuple[float, float] = (0.9, 0.99)
    muon_momentum: float = 0.95
    """Of Muon's matrices; what is no matrix gets AdamW."""
    capturable: bool = False
    """Whether a step must be of use in a CUDA graph: then it may not count on the host."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Names and shapes of the parameters, where the update is measured alone; empty inside a model, which brings its own."""

    @property
    def parameters(self) -> int:
        """Elements of all of them."""
        return sum(math.prod(shape) for _, shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Makes an optimizer of parameters, and says what it computes. Raises ValueError for an algorithm without a reference."""

    algorithm: str
    """One of `ALGORITHMS`."""
    make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]
    tolerance: float | None = None
    """Largest relative root mean square error of the parameters' change, where it is meant to be coarser than their dtype."""

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"no reference for the algorithm {self.algorithm!r}; known: {', '.join(ALGORITHMS)}")

    def __call__(self, parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
        return self.make(list(parameters))


def refuse_capture(spec: OptimizerSpec, why: str) -> None:
    """Raises Unsupported where a CUDA graph is asked for, which would replay one and the same step."""
    if spec.capturable:
        raise Unsupported(f"timer cuda_graph is not for it: {why}; use timer wall or events")
