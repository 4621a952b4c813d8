"""An optimizer tied to its parameters: attaches gradients untimed, and calls `step()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.declare import Bound
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch


class Gradients:
    """Those of the last call, so that `prepare` can attach them before the next one, untimed."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self._parameters = parameters
        self._given: Mapping[str, torch.Tensor] | None = None
        self._attached = False

    def prepare(self, calls: int) -> None:
        """Attaches what the last call got; gradients have been cleared before. A step leaves them where they are."""
        self._attached = False
        if self._given is not None:
            self.attach(self._given)

    def attach(self, given: Mapping[str, torch.Tensor]) -> None:
        """Sets each parameter's gradient, unless `given` is attached already."""
        if self._attached and given is self._given:
            return
        for name, parameter in self._parameters.items():
            parameter.grad = given[f"{name}.gradient"]
        self._given = given
        self._attached = True


@dataclass(frozen=True, slots=True)
class Update(Bound):
    """What is measured, with what its checks need: the recipe and the optimizer that it made."""

    recipe: Recipe = field(kw_only=True)
    optimizer: torch.optim.Optimizer = field(kw_only=True)

    @classmethod
    def of(cls, spec: OptimizerSpec, built: Any, parameters: Mapping[str, torch.Tensor]) -> Update:
        """Makes the optimizer. A builder's plain function is taken for AdamW, to which it is then held."""
        recipe = built if isinstance(built, Recipe) else Recipe("adamw", built)
        for parameter in parameters.values():
            parameter.requires_grad_()
        optimizer = recipe(parameters.values())
        gradients = Gradients(parameters)

        def forward(inputs: Mapping[str, torch.Tensor]) -> None:
            gradients.attach(inputs)
            optimizer.step()

        def observe(_: Any) -> dict[str, torch.Tensor]:
            return {name: parameter.detach() for name, parameter in parameters.items()}

        return cls(forward, parameters, prepare=gradients.prepare, observe=observe, recipe=recipe, optimizer=optimizer)
