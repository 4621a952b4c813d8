"""Says of a step which dtype everything has: weights, gradients, states, master copy, products. As found, not as declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bench.declare import DTYPES
from bench.records import Scalar
from bench.workloads.train_step._step import TrainingStep

if TYPE_CHECKING:
    import torch

NAMES: Mapping[str, str] = {stored: ours for ours, stored in DTYPES.items() if ours != "tf32"}


def numerics_facts(step: TrainingStep) -> dict[str, Scalar]:
    """`numerics_<what>` to a dtype, or to several with `+`; left out where there is none. A gradient has the dtype of its weight.

    `gradients_of_step`: the step, from 1, whose gradients are among the findings.
    """
    weights = list(step.model.parameters())
    found = {
        "numerics_weights": _joined(_name(weight) for weight in weights),
        "numerics_gradients": _joined(_name(weight) for weight in step.update.learned),
        "numerics_master": _joined(_name(master) for master in step.update.masters),
        "numerics_states": _joined(_state_names(step.update.optimizer.state)),
        "numerics_compute": step.numerics.compute,
        "numerics_loss_scaling": step.numerics.scaling,
        "learned_parameters": sum(getattr(weight, "ds_numel", weight.numel()) for weight in step.update.learned),
        "gradients_of_step": made.call if (made := step.first_update.made) else None,
        **step.driver.facts(),
    }
    return {name: fact for name, fact in found.items() if fact is not None}


def _joined(names: Iterator[str]) -> str | None:
    return "+".join(sorted(set(names))) or None


def _name(tensor: torch.Tensor) -> str:
    if hasattr(tensor, "__tensor_flatten__") or type(tensor).__name__ in ("Params4bit", "Int8Params"):
        return type(tensor).__name__
    stored = str(tensor.dtype).removeprefix("torch.")
    return NAMES.get(stored, stored)


def _state_names(states: Any) -> Iterator[str]:
    """Of states as large as a weight; a count of steps and a code book are none."""
    import torch

    for weight, state in states.items():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.numel() * 2 >= weight.numel() > 1:
                yield _name(value)
