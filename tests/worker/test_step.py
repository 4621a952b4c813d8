"""What one call begins with and leaves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from bench.declare import Bound
from bench.records import Pass
from bench.worker.step import Step


def doubling(pass_: Pass) -> tuple[Step, torch.Tensor]:
    x = torch.ones(4, requires_grad=True)

    def forward(inputs: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        return {"out": inputs["x"] * 2}

    return Step(Bound(forward), {"x": x}, {"out": torch.ones(4)}, pass_), x


@pytest.mark.parametrize("pass_", [Pass.BACKWARD, Pass.FORWARD_BACKWARD])
def test_no_call_of_a_sample_adds_to_the_gradients_of_the_one_before(pass_: Pass) -> None:
    step, x = doubling(pass_)
    step.prepare(3)
    for _ in range(3):
        step()
        assert x.grad is not None
        assert torch.equal(x.grad, torch.full((4,), 2.0))


def test_what_a_call_uses_up_is_made_ready_untimed_and_what_it_returns_is_named_afterwards() -> None:
    ready: list[int] = []
    bound = Bound(
        lambda _inputs: ready.pop(),
        prepare=lambda calls: ready.extend(range(calls)),
        observe=lambda returned: {"out": torch.tensor(float(returned))},
    )
    step = Step(bound, {}, {}, Pass.QUANTIZE)
    step.prepare(2)
    assert [step(), step()] == [1, 0]
    assert float(step.observed(1)["out"]) == 1.0
    with pytest.raises(IndexError):
        step()


def test_clearing_lets_go_of_forwards_that_wait() -> None:
    step, x = doubling(Pass.BACKWARD)
    step.prepare(2)
    step()
    step.clear()
    assert x.grad is None
    with pytest.raises(IndexError):
        step()
