"""Hears of every update, batch and loss scaling of a process: the few places of torch and DeepSpeed through which they all go.

Outside the profiled steps nothing else is touched, so that the script runs as fast as without a probe.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
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

    def scaler_asked(self, scaler: Any, optimizer: Any) -> None: ...


def watch(listener: Listener, when_imported: WhenImported) -> None:
    """From now on `listener` is told, for as long as the process lives."""
    ours = _watch_updates(listener)
    _watch_batches(listener)
    _watch_scaling(listener)
    when_imported("torch._dynamo", lambda: _not_compiled(ours))
    when_imported("deepspeed.runtime.engine", lambda: _watch_engine(listener))


def _watch_updates(listener: Listener) -> tuple[Callable[..., Any], ...]:
    """Outside of what torch puts around `step`: its hooks run within an open range of the profiler, where none may begin or end.

    Returns a function of each code that runs around it.
    """
    kind: Any = Optimizer
    of_torch = kind.profile_hook_step
    begins, ends = _untraced(listener.update_begins), _untraced(listener.update_ends)
    at_work: set[int] = set()

    def profile_hook_step(step: Any) -> Any:
        hooked = of_torch(step)

        @functools.wraps(hooked)
        def watched(self: Any, *arguments: Any, **options: Any) -> Any:
            if id(self) in at_work:  # a subclass whose step calls its parent's, which torch has hooked too
                return hooked(self, *arguments, **options)
            begins(self)
            at_work.add(id(self))
            try:
                answer = hooked(self, *arguments, **options)
            finally:
                at_work.discard(id(self))
            ends(self)
            return answer

        return _kept_out(watched)

    kind.profile_hook_step = staticmethod(profile_hook_step)
    return begins, profile_hook_step(kind.step)


def _untraced(tell: Callable[..., None]) -> Callable[..., None]:
    """`tell` as it runs outside of torch.compile: what a compiled function calls is traced, and the probe is not to be."""

    def told(*arguments: Any) -> None:
        tracing = set_eval_frame(None)
        try:
            tell(*arguments)
        finally:
            set_eval_frame(tracing)

    return _kept_out(told)


def _kept_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which is never inlined into a graph."""
    marked: Any = function
    marked._torchdynamo_disable, marked._torchdynamo_disable_msg = True, None
    return function


def _not_compiled(functions: Iterable[Callable[..., Any]]) -> None:
    """As frames of their own, which torch.compile looks at too where a compiled function calls them outside of its graphs."""
    for function in functions:
        sys.modules["torch._dynamo.decorators"].skip(function)


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
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        listener.scaler_asked(self, optimizer)
        return original(self, optimizer, *args, **kwargs)

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
