"""What is timed of a linear layer: a call of the layer, or its conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def plain_linear(parameters: Mapping[str, torch.Tensor], *, learns: bool) -> torch.nn.Linear:
    """A `torch.nn.Linear` of these very tensors, without a copy."""
    import torch

    weight, bias = parameters["weight"], parameters.get("bias")
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=learns)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias, requires_grad=learns)
    return layer


class Forward:
    """A call of the layer, compiled in a mode of `torch.compile` or as it is (None)."""

    def __init__(self, layer: torch.nn.Module, mode: str | None = None) -> None:
        import torch

        self.layer = layer
        self._call: Callable[[torch.Tensor], torch.Tensor] = layer if mode is None else torch.compile(layer, mode=mode)

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"out": self._call(inputs["x"])}


class Conversion:
    """The way from a plain layer to the one that replaces it, with the newest such layer as `layer`.

    Some libraries change the module that they get, so each call converts a plain layer of its own. All of them share one weight.
    """

    def __init__(self, convert: Callable[[Any], torch.nn.Module], parameters: Mapping[str, torch.Tensor]) -> None:
        self.layer: torch.nn.Module | None = None
        self._convert = convert
        self._parameters = parameters
        self._plain: list[torch.nn.Linear] = []

    def prepare(self, calls: int) -> None:
        """Makes the plain layers of the next calls."""
        self._plain = [plain_linear(self._parameters, learns=False) for _ in range(calls)]

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.nn.Module, torch.Tensor]:
        self.layer = self._convert(self._plain.pop())
        return self.layer, inputs["x"]

    def observe(self, returned: tuple[torch.nn.Module, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What the converted layer computes."""
        layer, x = returned
        return {"out": layer.eval()(x)}
