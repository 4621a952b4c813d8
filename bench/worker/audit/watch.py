"""Hears of every update, batch and loss scaling of a process: the few places of torch and DeepSpeed through which they all go.

Outside the profiled steps nothing else is touched, so that the script runs as fast as without a probe.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.optim import Optimizer
from torch.utils.data import dataloader

WhenImported = Callable[[str, Callable[[], None]], None]


class Listener(Protocol):
    """Who is told. None of these may raise."""

    def update_begins(self, optimizer: Any) -> None: ...

    def update_ends(self, optimizer: Any) -> None: ...

    def engine_begins(self, engine: Any) -> None: ...

    def engine_ends(self, engine: Any) -> None: ...

    def batch_came(self, iterator: Any, batch: Any, waited_s: float) -> None: ...

    def scaler_asked(self, scaler: Any) -> None: ...


def watch(listener: Listener, when_imported: WhenImported) -> None:
    """From now on `listener` is told, for as long as the process lives."""
    _watch_updates(listener)
    _watch_batches(listener)
    _watch_scaling(listener)
    when_imported("deepspeed.runtime.engine", lambda: _watch_engine(listener))


def _watch_updates(listener: Listener) -> None:
    """Outside of what torch puts around `step`: its hooks run within an open range of the profiler, where none may begin or end."""
    kind: Any = Optimizer
    of_torch = kind.profile_hook_step

    def profile_hook_step(step: Any) -> Any:
        hooked = of_torch(step)

        @functools.wraps(hooked)
        def watched(self: Any, *arguments: Any, **options: Any) -> Any:
            listener.update_begins(self)
            answer = hooked(self, *arguments, **options)
            listener.update_ends(self)
            return answer

        return watched

    kind.profile_hook_step = staticmethod(profile_hook_step)


def _watch_batches(listener: Listener) -> None:
    kind: Any = dataloader._BaseDataLoaderIter
    following = kind.__next__

    @functools.wraps(following)
    def next_batch(self: Any) -> Any:
        began = time.perf_counter()
        batch = following(self)
        listener.batch_came(self, batch, time.perf_counter() - began)
        return batch

    kind.__next__ = next_batch


def _watch_scaling(listener: Listener) -> None:
    kind: Any = torch.amp.GradScaler
    original = kind.step

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        listener.scaler_asked(self)
        return original(self, *args, **kwargs)

    kind.step = step


def _watch_engine(listener: Listener) -> None:
    kind: Any = sys.modules["deepspeed.runtime.engine"].DeepSpeedEngine
    original = kind.step

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        updates = self.is_gradient_accumulation_boundary()
        if updates:
            listener.engine_begins(self)
        result = original(self, *args, **kwargs)
        if updates:
            listener.engine_ends(self)
        return result

    kind.step = step
