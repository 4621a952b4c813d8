"""Real weights in the place of random ones: transformers' names, read from a folder as Hugging Face stores a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.workloads.train_step._spec import DecoderShape

if TYPE_CHECKING:
    import torch


ELSEWHERE = (
    "model.layers.{layers}.self_attn.o_proj.weight", "model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.q_norm.weight",
)  # fmt: skip
"""Tensors that a deeper model or another family has; who stores one that the model has no place for computes something else."""
PLAIN_FORMATS = ("float64", "float32", "bfloat16", "float16")
"""Formats that hold weights themselves; in all others scales lie beside them."""


def known_by(shape: DecoderShape) -> Mapping[str, tuple[int, ...]]:
    """Tensors that every family has, by name, with their shapes: who has them is as wide and as deep, and has the same vocabulary."""
    last = f"model.layers.{shape.layers - 1}"
    return {
        "model.embed_tokens.weight": (shape.vocab_size, shape.hidden_size),
        f"{last}.self_attn.o_proj.weight": (shape.hidden_size, shape.heads * shape.head_dim),
        f"{last}.mlp.down_proj.weight": (shape.hidden_size, shape.intermediate_size),
        "model.norm.weight": (shape.hidden_size,),
    }


def fill(model: Any, weights: str, stored: Callable[[str], torch.Tensor] | None) -> None:
    """Copies each weight into its place, in the model's dtype and on its device. One at a time: there may be no room for all twice.

    Raises ValueError where no folder is at hand, a tensor has another shape or is quantized, or the folder is that of a deeper model or
    another family; KeyError where one is missing.
    """
    if stored is None:
        raise ValueError(f"weights: {weights} are read from a folder: say which one with --weights DIR")
    parameters = dict(model.named_parameters())
    layers = {name.split(".")[2] for name in parameters if name.startswith("model.layers.")}
    for name in (name.format(layers=len(layers)) for name in ELSEWHERE if layers):
        if name not in parameters and _is_stored(name, stored):
            raise ValueError(f"{weights} has {name}, for which the model has no place: it is another model")
    for name, parameter in parameters.items():
        found = stored(name)
        if str(found.dtype).removeprefix("torch.") not in PLAIN_FORMATS:
            raise ValueError(
                f"{name} of {weights} is stored as {found.dtype}, with scales beside it: take weights that are not quantized"
            )
        if found.shape != parameter.shape:
            raise ValueError(f"{name} of {weights} has the shape {tuple(found.shape)}, not {tuple(parameter.shape)}")
        parameter.data.copy_(found)


def _is_stored(name: str, stored: Callable[[str], torch.Tensor]) -> bool:
    try:
        stored(name)
    except KeyError:
        return False
    return True
