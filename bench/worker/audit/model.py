"""Describes the model that is trained: its parameters and gradients, what of it is quantized, and what was put beside frozen weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from bench.audited import Adapters, Model, Quantized, Tensors
from bench.worker.audit.asked import config_of
from bench.worker.audit.scene import Scene, class_of, package_of
from bench.worker.audit.tensors import counted, stored_bytes, whole_elements

MOST_TARGETS = 12
_PLAIN_SUBCLASSES = ("Parameter", "Tensor", "DTensor", "Buffer", "FlatParameter")


def describe_model(scene: Scene) -> Model:
    parameters = list(scene.root.parameters())
    config = config_of(scene.model)
    vocabulary = config.get("vocab_size")
    return Model(
        class_name=class_of(_innermost(scene.model)).__name__,
        wrappers=scene.wrappers,
        parameters=counted(parameters),
        trained_elements=sum(whole_elements(parameter) for parameter in parameters if parameter.requires_grad),
        elements=sum(whole_elements(parameter) for parameter in parameters),
        config=config,
        layers=len(scene.layers),
        vocab_size=int(vocabulary) if isinstance(vocabulary, int) else None,
    )


def _innermost(model: nn.Module) -> nn.Module:
    """The model that adapters were put into."""
    if package_of(type(model).__module__) != "peft":
        return model
    return next((module for module in model.modules() if package_of(class_of(module).__module__) != "peft"), model)


def gradients(parameters: Iterable[torch.Tensor]) -> tuple[Tensors, ...]:
    """As they lie beside their parameters now."""
    return counted(parameter.grad for parameter in parameters if parameter.grad is not None)


def quantized(scene: Scene) -> tuple[Quantized, ...]:
    """Modules whose weights are quantized, by kind; most first."""
    groups: dict[tuple[str, bool | None, str | None], list[torch.Tensor]] = defaultdict(list)
    for module in scene.model.modules():
        weight = module._parameters.get("weight")
        kind = _kind(module, weight) if weight is not None else None
        if kind is None or weight is None:
            continue
        state = getattr(weight, "quant_state", None)
        doubled = bool(getattr(state, "nested", False)) if state is not None else None
        computes = getattr(module, "compute_dtype", None)
        groups[kind, doubled, str(computes).removeprefix("torch.") if computes is not None else None].append(weight)
    rows = [
        Quantized(kind, len(weights), sum(map(whole_elements, weights)), sum(map(stored_bytes, weights)), doubled, computes)
        for (kind, doubled, computes), weights in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.modules))


def _kind(module: nn.Module, weight: torch.Tensor) -> str | None:
    name, package = class_of(module).__name__, package_of(class_of(module).__module__)
    if package == "bitsandbytes":
        state = getattr(weight, "quant_state", None)
        if state is not None:
            return f"bitsandbytes {getattr(state, 'quant_type', '4bit')}"
        if "8bit" in name:
            return "bitsandbytes int8"
        return None
    tensor = type(weight).__name__
    if tensor == "Parameter":
        tensor = type(weight.data).__name__
    if hasattr(weight, "__tensor_flatten__") and tensor not in _PLAIN_SUBCLASSES:
        return f"{package_of(type(weight).__module__)} {tensor}"
    if package == "torchao":
        return f"torchao {name}"
    if name.startswith(("GPTQ", "AWQ", "WQLinear", "HQQ", "QuantLinear", "FakeQuant")):
        return f"{package} {name}"
    return None


def adapters(scene: Scene) -> tuple[Adapters, ...]:
    """peft's layers by kind of tuner."""
    groups: dict[str, list[tuple[str, nn.Module]]] = defaultdict(list)
    for name, module in scene.model.named_modules():
        kind = next((kind for kind in type(module).__mro__ if kind.__name__ == "BaseTunerLayer"), None)
        if kind is not None:
            tuner = type(module).__module__.split(".")[2] if type(module).__module__.startswith("peft.tuners.") else "layer"
            groups[tuner].append((name, module))
    return tuple(_adapters(tuner, layers) for tuner, layers in sorted(groups.items()))


def _adapters(tuner: str, layers: list[tuple[str, nn.Module]]) -> Adapters:
    trained = {id(part): part for _, layer in layers for part in layer.parameters() if part.requires_grad}
    ranks: set[int] = set()
    for _, layer in layers:
        values: Any = getattr(layer, "r", None)
        ranks |= {int(value) for value in values.values()} if isinstance(values, dict) else set()
    targets = dict.fromkeys(name.rsplit(".", 1)[-1] for name, _ in layers)
    return Adapters(
        kind="peft LoRA" if tuner == "lora" else f"peft {tuner}",
        modules=len(layers),
        ranks=tuple(sorted(ranks)),
        targets=tuple(targets)[:MOST_TARGETS],
        trained_elements=sum(map(whole_elements, trained.values())),
    )
