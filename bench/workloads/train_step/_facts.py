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

CONVERTING: Mapping[str, str] = {"Float8Linear": "float8", "Linear8bitLt": "int8"}
"""Class of a layer that converts both sides of its products, and to what."""


def numerics_facts(step: TrainingStep) -> dict[str, Scalar]:
    """`numerics_<what>` to a dtype, or to several with `+`; left out where there is none. A gradient has the dtype of its weight.

    Of what ranks share it is that of the shards, and says so. Layers that convert what they multiply are told beside all others.

    `gradients_of_step`: the step, from 1, whose gradients are among the findings. `steps_skipped`: after an overflow, of all that were
    taken in the trial, where a scale finds itself.
    """
    weights = list(step.model.parameters())
    found = {
        "numerics_weights": _joined(_name(weight) for weight in weights),
        "numerics_gradients": _joined(_name(weight) for weight in step.update.learned),
        "numerics_master": _joined(_name(master) for master in step.update.masters),
        "numerics_states": _joined(_state_names(step.update.optimizer.state)),
        "numerics_compute": "+".join([step.numerics.compute, *sorted(set(_converted(step.model)))]),
        "numerics_loss_scaling": step.numerics.scaling,
        "learned_parameters": sum(getattr(weight, "ds_numel", weight.numel()) for weight in step.update.learned),
        "gradients_of_step": made.call if (made := step.first_update.made) else None,
        "steps_skipped": step.update.skipped_steps if step.numerics.scaling == "dynamic" else None,
        **step.driver.facts(),
    }
    return {name: fact for name, fact in found.items() if fact is not None}


def _joined(names: Iterator[str]) -> str | None:
    return "+".join(sorted(set(names))) or None


def _converted(model: torch.nn.Module) -> Iterator[str]:
    """In which formats layers multiply: `float8`, `int8`, or `fake int4` where numbers are rounded to it and stay floats."""
    for module in model.modules():
        kind = type(module).__name__
        if kind in CONVERTING:
            yield CONVERTING[kind]
        for quantizer in ("weight_fake_quantizer", "activation_fake_quantizer"):
            if (found := getattr(module, quantizer, None)) is not None:
                yield f"fake {str(found.config.dtype).removeprefix('torch.')}"


def _name(tensor: torch.Tensor) -> str:
    kind, stored = type(tensor).__name__, str(tensor.dtype).removeprefix("torch.")
    if kind == "DTensor":
        return f"{NAMES.get(stored, stored)} shards"
    if hasattr(tensor, "__tensor_flatten__") or kind in ("Params4bit", "Int8Params"):
        return kind
    return NAMES.get(stored, stored)


def _state_names(states: Any) -> Iterator[str]:
    """Of states as large as a weight; a count of steps and a code book are none."""
    import torch

    for weight, state in states.items():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.numel() * 2 >= weight.numel() > 1:
                yield _name(value)
