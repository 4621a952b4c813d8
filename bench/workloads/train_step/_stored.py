"""Real weights in the place of random ones: transformers' names, read from a folder as Hugging Face stores a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.workloads.train_step._spec import DecoderShape

if TYPE_CHECKING:
    import torch


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

    Raises ValueError where no folder is at hand, or a tensor has another shape; KeyError where one is missing.
    """
    if stored is None:
        raise ValueError(f"weights: {weights} are read from a folder: say which one with --weights DIR")
    for name, parameter in model.named_parameters():
        found = stored(name)
        if found.shape != parameter.shape:
            raise ValueError(f"{name} of {weights} has the shape {tuple(found.shape)}, not {tuple(parameter.shape)}")
        parameter.data.copy_(found)
