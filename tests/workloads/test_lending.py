"""A kernel that overwrites what it is given may be called again and again, and the copy is never made within a call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.declare import Bound
from bench.records import Pass
from bench.worker.memory_cpu import peak_bytes
from bench.worker.step import Step
from bench.workloads.rope._lending import lending


class Doubling(torch.autograd.Function):
    """Writes twice its input over it, and twice the outer gradient over that, behind autograd's back as a Triton kernel does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.data.add_(x.data)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        gradient.data.add_(gradient.data)
        return gradient


class Greedy:
    overwrites_inputs = True
    overwrites_gradient = True

    def __call__(self, x: torch.Tensor) -> Any:
        return Doubling.apply(x)


def greedy_step(pass_: Pass) -> tuple[Step, torch.Tensor, torch.Tensor]:
    kernel = Greedy()
    call, prepare = lending(kernel, kernel)
    x = torch.arange(1024.0).requires_grad_(pass_.differentiates)
    outer = torch.full((1024,), 3.0)
    bound = Bound(lambda inputs: {"out": call(inputs["x"])}, prepare=prepare)
    return Step(bound, {"x": x}, {"out": outer}, pass_), x, outer


@pytest.mark.parametrize("pass_", [Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD])
@pytest.mark.parametrize("prepared", [True, False])
def test_inputs_and_outer_gradients_stay_what_they_were(pass_: Pass, prepared: bool) -> None:
    step, x, outer = greedy_step(pass_)
    step.prepare()
    for calls in (1, 2, 3):
        if prepared or pass_ is Pass.BACKWARD:
            step.prepare(calls)
        for _ in range(calls):
            outputs = step()
            assert torch.equal(outputs["out"].detach(), 2 * torch.arange(1024.0))
            if pass_.differentiates:
                assert x.grad is not None
                assert torch.equal(x.grad, torch.full((1024,), 6.0))
    assert torch.equal(x.detach(), torch.arange(1024.0))
    assert torch.equal(outer, torch.full((1024,), 3.0))


@pytest.mark.parametrize("pass_", [Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD])
def test_a_prepared_call_allocates_nothing(pass_: Pass) -> None:
    step, _, _ = greedy_step(pass_)
    step.prepare()
    step()
    (peak,) = peak_bytes(step)
    assert peak.samples == (0.0,)


def test_new_numbers_in_the_same_tensors_are_seen() -> None:
    step, x, outer = greedy_step(Pass.FORWARD_BACKWARD)
    step.prepare()
    step()
    step.prepare()
    with torch.no_grad():
        x.fill_(5.0)
        outer.fill_(7.0)
    outputs = step()
    assert torch.equal(outputs["out"].detach(), torch.full((1024,), 10.0))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((1024,), 14.0))


def test_another_outer_gradient_is_not_mistaken_for_the_one_that_was_copied() -> None:
    step, x, _ = greedy_step(Pass.FORWARD_BACKWARD)
    step.prepare()
    step()
    step.prepare()
    step.backward(step.bound.forward(step.inputs), {"out": torch.full((1024,), 4.0)})
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((1024,), 8.0))


def test_what_overwrites_nothing_gets_the_tensors_themselves() -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x

    assert lending(plain, plain) == (plain, None)
