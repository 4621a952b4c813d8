"""Marks phases and modules of a profiled step on the profiler's own time line, and looks at what passes through the model meanwhile.

All hooks are there for a profiled step only. Where something of the model is compiled, its insides are left alone: a hook there would make
torch compile it again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from bench.worker.attribution import BACKWARD_PHASE, FORWARD_PHASE, LOSS_PHASE
from bench.worker.attribution_trace import MARK
from bench.worker.audit.batches import Batch, look_at
from bench.worker.audit.guard import Notes
from bench.worker.audit.scene import Scene

OPTIMIZER_PHASE, BETWEEN, OTHER_PHASE = "optimizer", "between", "other"
WATCHED = ("attention", "norm", "mlp", "rotary", "embedding", "head", "loss", "layer")
"""Roles of the modules whose time is told apart; what is in none of them counts for the module around it."""
_MODULE = f"{MARK}module "


def is_compiled(module: nn.Module) -> bool:
    """Whether torch.compile took the module itself."""
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


class Marks:
    """One profiled step. `start` and `stop` lie at the ends of two updates."""

    def __init__(self, scene: Scene, notes: Notes, *, modules: bool) -> None:
        self._scene = scene
        self._notes = notes
        self._stack = ExitStack()
        self._phase = OTHER_PHASE
        self._whole = not any(is_compiled(module) for module in scene.root.modules())
        self._root_is_open = getattr(scene.root, "_compiled_call_impl", None) is None
        self._modules = modules
        self.watched: list[nn.Module] = []
        self._index: dict[int, int] = {}
        self._open: dict[tuple[int, int], list[Any]] = {}
        self.called: set[int] = set()
        """`id` of every module that ran."""
        self.recomputed: set[int] = set()
        """Of every layer that ran during a backward."""
        self.reentrant: bool | None = None
        self.autocast: set[str] = set()
        """dtypes of autocast where the model or a part of it that has weights was called; `off` where it was not on. Empty: not seen."""
        self.batches: list[Batch] = []
        self.root_called = False
        """Whether the outermost module itself was called in training, or cannot be watched."""

    @property
    def watches_modules(self) -> bool:
        """Whether the model's insides are seen."""
        return self._whole

    @property
    def watches_autocast(self) -> bool:
        """Whether a forward was seen, and not only from outside of something compiled, which may switch autocast on within."""
        return bool(self.autocast) and (self._whole or self.autocast != {"off"})

    @property
    def in_update(self) -> bool:
        return self._phase == OPTIMIZER_PHASE

    def start(self, extra: Callable[[Mapping[str, Any]], None] | None = None) -> None:
        """`extra` gets the tensors that the model is called with."""
        self._extra = extra
        scene = self._scene
        if self._root_is_open:
            self._stack.callback(scene.root.register_forward_pre_hook(self._root_begins, with_kwargs=True).remove)
            self._stack.callback(scene.root.register_forward_hook(self._root_ends).remove)
        if self._whole:
            self.watched = [module for module in scene.root.modules() if scene.roles.get(id(module)) in WATCHED]
            self._index = {id(module): number for number, module in enumerate(self.watched)}
            self._layers = {id(layer) for layer in scene.layers}
            self._weighted = {id(module) for module in scene.root.modules() if _own_weight(module) is not None}
            self._stack.callback(register_module_forward_pre_hook(self._module_begins).remove)
            self._stack.callback(register_module_forward_hook(self._module_ends, always_call=True).remove)
        backward = torch.autograd.backward
        torch.autograd.backward = self._watched_backward(backward)
        self._stack.callback(setattr, torch.autograd, "backward", backward)
        self.root_called = not self._root_is_open
        self.phase(OTHER_PHASE if self._root_is_open else FORWARD_PHASE)

    def stop(self) -> None:
        self._stack.close()
        self._open.clear()

    def phase(self, name: str) -> None:
        """The phase `name` begins."""
        self._phase = name
        with torch.profiler.record_function(f"{MARK}phase {name}"):
            pass

    def _watched_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._phase == BACKWARD_PHASE:
                return original(*args, **kwargs)  # a checkpoint differentiates its part within the backward
            self.phase(BACKWARD_PHASE)
            result = original(*args, **kwargs)
            self.phase(BETWEEN if self._root_is_open else FORWARD_PHASE)
            return result

        return backward

    def _root_begins(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with self._notes.guarded("the model's inputs"):
            if self._phase == BACKWARD_PHASE or not self._scene.root.training:
                return
            self.root_called = True
            found = look_at((args, kwargs), self._scene.model)
            if found is not None:
                self.batches.append(found)
            self.autocast.add(_autocast(self._scene.root))
            if self._extra is not None:
                self._extra(_tensors(args, kwargs))
            self.phase(FORWARD_PHASE)

    def _root_ends(self, *_: Any) -> None:
        with self._notes.guarded("the end of the forward"):
            if self._phase == FORWARD_PHASE:
                self.phase(LOSS_PHASE)

    def _module_begins(self, module: nn.Module, _: Any) -> None:
        with self._notes.guarded("a module's forward"):
            number = self._index.get(id(module))
            self.called.add(id(module))
            if id(module) in self._weighted:
                self.autocast.add(_autocast(module))
            if number is None:
                return
            if module is self._scene.head and self._phase == FORWARD_PHASE:
                self.phase(LOSS_PHASE)
            if self._phase == BACKWARD_PHASE and id(module) in self._layers:
                self.recomputed.add(id(module))
                self.reentrant = _is_reentrant()
            if self._modules:
                record = torch.profiler.record_function(f"{_MODULE}{number}")
                record.__enter__()
                self._open.setdefault((id(module), _thread()), []).append(record)

    def _module_ends(self, module: nn.Module, *_: Any) -> None:
        with self._notes.guarded("a module's end"):
            if id(module) not in self._index and module is not self._scene.body:
                return
            records = self._open.get((id(module), _thread()))
            if records:
                records.pop().__exit__(None, None, None)
            if module is self._scene.body and self._phase == FORWARD_PHASE:
                self.phase(LOSS_PHASE)


def module_number(name: str) -> int | None:
    """Of a mark's name; None where it is none of a module's."""
    return int(name.removeprefix(_MODULE)) if name.startswith(_MODULE) else None


def phase_of(name: str) -> str | None:
    prefix = f"{MARK}phase "
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def _thread() -> int:
    import threading

    return threading.get_ident()


def _own_weight(module: nn.Module) -> torch.Tensor | None:
    """Any that lies in the module itself."""
    return next((parameter for parameter in module._parameters.values() if parameter is not None), None)


def _autocast(module: nn.Module) -> str:
    device = next((parameter.device.type for parameter in module.parameters()), "cpu")
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.") if torch.is_autocast_enabled(device) else "off"


def _is_reentrant() -> bool:
    """Whether the forward that runs now was called by the backward of a checkpoint's own autograd function."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename.rsplit("/", 1)[-1]
        if name in ("checkpoint.py", "checkpointing.py") and frame.f_code.co_name == "backward":
            return True
        frame = frame.f_back
    return False


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
    named = {**{str(number): value for number, value in enumerate(args)}, **kwargs}
    return {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}
