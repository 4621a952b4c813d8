"""Finds what is trained: the outermost module whose parameters an optimizer updates, its layers, and what each module does.

By looking through the garbage collector's list, once: a script tells nobody which of its objects is the model.
"""

from __future__ import annotations

import functools
import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_ATTENTION = re.compile(r"(?i)attention|attn|\bmha\b")
_NOT_ATTENTION = re.compile(r"(?i)norm|mask|rotary|rope|output|loss|pool|embed")
_ROLES = (
    ("norm", re.compile(r"(?i)norm")),
    ("rotary", re.compile(r"(?i)rotary|rope")),
    ("loss", re.compile(r"(?i)loss|crossentropy")),
    ("mlp", re.compile(r"(?i)mlp|feed_?forward|ffn|swiglu|geglu|experts?$")),
    ("embedding", re.compile(r"(?i)embedding$")),
)
_WRAPPERS = (
    "DistributedDataParallel", "FullyShardedDataParallel", "DeepSpeedEngine", "OptimizedModule", "DataParallel", "CheckpointWrapper",
    "_CheckpointWrapper",
)  # fmt: skip
_INNER = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


@dataclass(frozen=True, slots=True)
class Scene:
    """What is trained, and by whom."""

    root: nn.Module
    """The outermost module: what the script calls."""
    model: nn.Module
    """The same without wrappers; one that adds adapters is none."""
    wrappers: tuple[str, ...]
    layers: tuple[nn.Module, ...]
    """The longest list of equal modules."""
    head: nn.Module | None
    """The last projection, where it can be told."""
    body: nn.Module | None
    """What ends where the last projection and the loss begin."""
    roles: dict[int, str]
    """By `id` of the module."""
    trainers: tuple[Any, ...]
    """transformers' Trainers, and what derives from them."""
    engine: Any
    """DeepSpeed's, or None."""
    beside: tuple[nn.Module, ...] = ()
    """Other outermost modules that are updated too: a discriminator, a critic."""


def all_objects(wanted: Callable[[type], bool]) -> list[Any]:
    """What the garbage collector holds of the types that are wanted. Asks types only: an object's own words may run its code."""
    asked: dict[type, bool] = {}
    found = []
    for thing in gc.get_objects():
        kind = type(thing)
        if kind not in asked:
            asked[kind] = wanted(kind)
        if asked[kind]:
            found.append(thing)
    return found


def find_scene(parameters: Iterable[torch.Tensor], engine: Any) -> Scene | None:
    """The scene around what an optimizer updates; None where no module holds any of it."""
    trainer = getattr(sys.modules.get("transformers.trainer"), "Trainer", ())
    found = all_objects(lambda kind: issubclass(kind, (nn.Module, *((trainer,) if trainer else ()))))
    modules = [thing for thing in found if issubclass(type(thing), nn.Module)]
    updated = _outermost(modules, {id(parameter) for parameter in parameters})
    root = engine if engine is not None else next(iter(updated), None)
    if root is None:
        return None
    wrappers, model = _unwrapped(root)
    layers = _longest_list(model)
    head = _head(model)
    body = _body(model, head, layers)
    roles = dict(_roles(model, layers, head))
    trainers = tuple(thing for thing in found if not issubclass(type(thing), nn.Module))
    return Scene(root, model, wrappers, layers, head, body, roles, trainers, engine, tuple(updated[1:]) if engine is None else ())


def class_of(module: nn.Module) -> type:
    """Its class as it was written: FSDP2 puts one of its own in front."""
    kind = type(module)
    if kind.__name__.startswith("FSDP") and len(kind.__bases__) == 2 and kind.__bases__[0].__name__ == "FSDPModule":
        return kind.__bases__[1]
    return kind


def package_of(module_name: str) -> str:
    return module_name.partition(".")[0]


def forward_of(module: nn.Module) -> Any:
    """The function that computes its forward, out of all wrappers."""
    return innermost(module.forward)


def innermost(function: Any) -> Any:
    """The function within methods, partial calls and decorators."""
    for _ in range(20):
        if isinstance(function, functools.partial):
            inner = getattr(function, "__wrapped__", function.func)
        else:
            inner = getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return function


def defined_in(function: Any) -> str:
    """Package whose code a function is; empty where it is no Python code."""
    names = getattr(innermost(function), "__globals__", None)
    return package_of(str(names.get("__name__", ""))) if names is not None else ""


def _outermost(modules: list[nn.Module], updated: set[int]) -> list[nn.Module]:
    """Modules that lie in no other and hold something that is updated and that none before them holds; of most numbers first."""
    children = {id(child) for module in modules for child in module._modules.values() if child is not None}
    held = []
    for module in modules:
        if id(module) not in children:
            sizes = {id(parameter): parameter.numel() for parameter in module.parameters() if id(parameter) in updated}
            held.append((sum(sizes.values()), set(sizes), module))
    found, seen = [], set[int]()
    for size, own, module in sorted(held, key=lambda one: -one[0]):
        if size and not own <= seen:
            found.append(module)
            seen |= own
    return found


def _unwrapped(root: nn.Module) -> tuple[tuple[str, ...], nn.Module]:
    wrappers: list[str] = []
    module = root
    while class_of(module).__name__ in _WRAPPERS:
        inner = next((child for name in _INNER if isinstance(child := module._modules.get(name), nn.Module)), None)
        if inner is None:
            break
        wrappers.append(class_of(module).__name__)
        module = inner
    if package_of(type(module).__module__) == "peft":
        wrappers.append(class_of(module).__name__)
    return tuple(wrappers), module


def _longest_list(model: nn.Module) -> tuple[nn.Module, ...]:
    """Of those with the most parameters: a list of equal modules is how decoders keep their layers."""
    best: tuple[nn.Module, ...] = ()
    most = 0
    for module in model.modules():
        if not isinstance(module, (nn.ModuleList, nn.Sequential)) or len(module) < 2:
            continue
        inside = tuple(_unwrapped(child)[1] for child in module)
        if len({class_of(child) for child in inside}) != 1 or not any(child._modules for child in inside):
            continue
        size = sum(1 for child in inside for _ in child.parameters())
        if size > most:
            best, most = inside, size
    return best


def _head(model: nn.Module) -> nn.Module | None:
    outer = _of_transformers(model)
    if outer is not None:
        found = outer.get_output_embeddings()
        return found if isinstance(found, nn.Module) else None
    return next(
        (child for name, child in model._modules.items() if child is not None and name in ("lm_head", "output", "head")), None
    )


def _of_transformers(model: nn.Module) -> Any:
    """The module that knows its output embeddings: the model, or what adapters wrap."""
    return next(
        (module for module in model.modules() if hasattr(module, "get_output_embeddings") and hasattr(module, "config")), None
    )


def _body(model: nn.Module, head: nn.Module | None, layers: tuple[nn.Module, ...]) -> nn.Module | None:
    """The innermost module around all layers that does not hold the head."""
    if not layers:
        return None
    found = None
    for module in model.modules():
        inside = {id(child) for child in module.modules()}
        if module is not model and id(layers[0]) in inside and id(layers[-1]) in inside and not isinstance(module, nn.ModuleList):
            if head is not None and id(head) in inside:
                continue
            found = module
            break
    return found


def _roles(model: nn.Module, layers: tuple[nn.Module, ...], head: nn.Module | None) -> Iterator[tuple[int, str]]:
    of_layers = {id(layer) for layer in layers}
    attention = {id(module) for module in model.modules() if _looks_like_attention(module)}
    outer_attention = {
        id(module)
        for module in model.modules()
        if id(module) in attention and any(id(child) in attention for child in module.modules() if child is not module)
    }
    for module in model.modules():
        if id(module) in of_layers:
            yield id(module), "layer"
        elif module is head:
            yield id(module), "head"
        elif id(module) in attention and id(module) not in outer_attention:
            yield id(module), "attention"
        else:
            yield id(module), _role_by_name(module)


def _looks_like_attention(module: nn.Module) -> bool:
    name = class_of(module).__name__
    if not _ATTENTION.search(name) or _NOT_ATTENTION.search(name) or isinstance(module, nn.ModuleList):
        return False
    return any(child is not None for child in module._modules.values()) or any(True for _ in module.parameters(recurse=False))


def _role_by_name(module: nn.Module) -> str:
    name = class_of(module).__name__
    for role, pattern in _ROLES:
        if pattern.search(name):
            return role
    if isinstance(module, nn.Linear) or (hasattr(module, "in_features") and hasattr(module, "out_features")):
        return "linear"
    return "other"
