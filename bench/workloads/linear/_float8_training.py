"""torchao's layer for training in float8: the weight stays as it is, and each product converts what it multiplies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.workloads.linear._compiled import COMPILED

if TYPE_CHECKING:
    import torch

PASSES = ["forward", "backward", "forward_backward"]
PROOF = {
    "cpu": {"ops": [f"^aten::_scaled_mm$|{COMPILED}"], "not": ["^aten::linear$"]},
    "cuda": {"ops": ["^aten::_scaled_mm$"], "not": ["^aten::linear$"]},
}
"""On a GPU the vendor's float8 product stays an operator within a compiled layer; a layer that was left plain has none."""


def float8_training(recipe: str) -> Any:
    """The way from a plain layer to torchao's, by the name of a recipe of its."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    config = Float8LinearConfig.from_recipe_name(recipe)

    def convert(plain: torch.nn.Linear) -> torch.nn.Module:
        converted: torch.nn.Module = convert_to_float8_training(plain, config=config)
        return converted

    return convert
