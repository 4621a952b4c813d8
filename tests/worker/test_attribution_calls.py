"""Calls that are marked for an allocation's sake: the same as the profiler's own, and nothing is left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from bench.worker.attribution_calls import MarkedCalls
from bench.worker.attribution_trace import _trace


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> torch.Tensor:
        return outer[0] * 2 + torch.zeros_like(ctx.saved_tensors[0])


class Refused(Exception):
    pass


def refusing(x: torch.Tensor) -> torch.Tensor:
    made = x.exp()
    raise Refused(made.shape)


@contextmanager
def around(x: torch.Tensor) -> Iterator[torch.Tensor]:
    before = x + 1
    yield before
    before.cos()


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """Calls of all kinds: comprehensions, generators, what raises, what autograd calls, what is run again, what somebody has named."""
    parts = [part.sin() for part in x.split(8)]
    with around(torch.cat(parts)) as wider, suppress(Refused):
        refusing(wider)
    hidden = Doubled.apply(sum(part.tan() for part in wider.split(8)))
    with torch.profiler.record_function("named by somebody"):
        out = checkpoint(lambda y: torch.tanh(model(y)), hidden, use_reentrant=False)
    (out * 2).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def allocations(run: Callable[[], None], *, with_stack: bool) -> list[tuple[int, str]]:
    """Bytes and place of every allocation and release, in order."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        torch.profiler.profile(activities=activities, profile_memory=True, with_stack=with_stack) as profile,
        nullcontext() if with_stack else MarkedCalls(),
    ):
        run()
    trace = _trace(profile.profiler.kineto_results.experimental_event_tree(), [], None, "cpu")
    return [(event.size, event.where) for event in trace.events]


def test_allocations_are_told_with_the_functions_that_the_profiler_itself_would_tell() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(32, 16, requires_grad=True)
    for _ in range(2):
        step(model, optimizer, x)
    marked, noted = (allocations(lambda: step(model, optimizer, x), with_stack=with_stack) for with_stack in (False, True))
    assert marked == noted
    places = {where.split(" in ")[-1].split(": ")[-1] for _, where in marked}
    assert {"step", "around", "refusing", "backward", "<lambda>"} <= places


def test_a_call_within_a_backward_is_told_too() -> None:
    x = torch.randn(32, 16, requires_grad=True)
    made = Doubled.apply(x).sum()
    told = allocations(lambda: made.backward(), with_stack=False)
    assert any(where.startswith("aten::mul in ") and where.endswith("): backward") for _, where in told)


def test_whoever_listened_before_listens_again_and_backwards_run_as_before() -> None:
    heard: list[str] = []

    def listener(_frame: Any, event: str, _argument: Any) -> None:
        heard.append(event)

    former, threads = sys.getprofile(), torch.autograd.is_multithreading_enabled()
    sys.setprofile(listener)
    try:
        with pytest.raises(Refused), MarkedCalls():
            refusing(torch.ones(2))
        assert sys.getprofile() is listener
    finally:
        sys.setprofile(former)
    assert torch.autograd.is_multithreading_enabled() == threads


def test_nothing_is_compiled_for_listening_where_a_step_is_compiled() -> None:
    def called_beside_the_graph(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x.exp()

    @torch.compile(backend="eager")
    def compiled(x: torch.Tensor) -> torch.Tensor:
        return called_beside_the_graph(x + 1).sum()

    torch._dynamo.reset()
    for _ in range(2):
        compiled(torch.ones(4))
    frames = dict(torch._dynamo.utils.counters["frames"])
    assert frames["total"] > 0
    allocations(lambda: compiled(torch.ones(4)), with_stack=False)
    assert dict(torch._dynamo.utils.counters["frames"]) == frames
