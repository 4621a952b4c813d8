"""torchao's two steps of quantization-aware training over the linear layers of a decoder's blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported
from bench.workloads.train_step._change import Change, Evidence

if TYPE_CHECKING:
    import torch

REQUIRES = ["torchao>=0.18"]
GROUP = 32
"""Weights that share a scale in int4, along the input features."""


def base_config(kind: str) -> Any:
    """torchao's configuration of the format: `int8_dynamic` or `int4`."""
    import torch
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerAxis, PerGroup

    if kind == "int8_dynamic":
        return Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0))
    return IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(GROUP))  # type: ignore[attr-defined]


def prepared(kind: str) -> Change:
    """Puts fake quantization into every linear layer of the blocks. Raises Unsupported where a group does not fit."""
    from torchao.quantization import quantize_
    from torchao.quantization.qat import QATConfig

    def prepare(model: Any) -> Any:
        for module in model.model.layers.modules():
            if kind == "int4" and _is_linear(module) and module.in_features % GROUP:
                raise Unsupported(f"{module.in_features} input features are no multiple of the {GROUP} weights that share a scale")
        quantize_(model.model.layers, QATConfig(base_config(kind), step="prepare"))
        return model

    return Change(prepare, _plain_left)


def convert(model: Any, kind: str) -> Any:
    """The quantized model of a prepared and trained one; in place."""
    from torchao.quantization import quantize_
    from torchao.quantization.qat import QATConfig

    quantize_(model.model.layers, QATConfig(base_config(kind), step="convert"))
    return model


def quantize(model: Any, kind: str) -> Any:
    """The quantized model of a trained one that was not prepared; in place."""
    from torchao.quantization import quantize_

    quantize_(model.model.layers, base_config(kind))
    return model


def quantized_weights(model: Any) -> dict[str, Any]:
    """The weights of the blocks' linear layers that are in a quantized format, by the names of the layers: torchao's own tensors."""
    return {name: module.weight for name, module in linears(model).items() if hasattr(module.weight, "__tensor_flatten__")}


def linears(model: Any) -> dict[str, torch.nn.Linear]:
    """The linear layers of the blocks, prepared ones too, by their names."""
    import torch

    return {name: module for name, module in model.model.layers.named_modules() if isinstance(module, torch.nn.Linear)}


def fake_quantized(model: Any) -> int:
    """How many linear layers of the blocks are prepared."""
    return sum(type(module).__name__ == "FakeQuantizedLinear" for module in model.model.layers.modules())


def _plain_left(evidence: Evidence) -> str | None:
    plain = sum(_is_linear(module) for module in evidence.model.model.layers.modules())
    return None if fake_quantized(evidence.model) and not plain else f"{plain} linear layers of the blocks are not prepared"


def _is_linear(module: torch.nn.Module) -> bool:
    import torch

    return type(module) is torch.nn.Linear
