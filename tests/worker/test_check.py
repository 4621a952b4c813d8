"""What is held against the reference, and how a failure is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.records import Check, Pass, Status
from bench.worker.check import OVERWRITTEN, _last_bits_flipped, random_like, require, starting_gradients
from bench.worker.refusals import DisagreesError
from tests.worker.trials import answer, rms_norm


def test_flipping_moves_numbers_to_their_neighbours_and_back() -> None:
    tensor = torch.randn(64, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    moved = _last_bits_flipped({"x": tensor, "index": torch.arange(3)}, "bf16")
    difference = (moved["x"].double() - tensor.double()).abs() / tensor.double().abs()
    assert 0 < int((difference > 0).sum()) < 64
    assert float(difference.max()) <= 2.0**-7
    assert torch.equal(_last_bits_flipped({"x": moved["x"]}, "bf16")["x"], tensor)
    assert torch.equal(moved["index"], torch.arange(3))


def test_a_failure_is_told_with_its_numbers() -> None:
    with pytest.raises(DisagreesError, match=r"out \(small\): error 0.5 > limit 4.77e-06"):
        require([Check("out", "small", 0.5, 0.0, 4.77e-6, False)])
    require([Check("out", "small", 0.0, 0.0, 4.77e-6, True)])


def test_the_outer_gradient_of_a_lone_number_rounds_nothing_and_is_1_where_it_is_timed() -> None:
    outputs = {"loss": torch.zeros(()), "out": torch.zeros(3)}
    checked = random_like(outputs, torch.Generator().manual_seed(1))
    timed = starting_gradients(outputs, torch.Generator().manual_seed(1))
    assert float(checked["loss"]) == -0.5
    assert float(timed["loss"]) == 1.0
    assert torch.equal(checked["out"], timed["out"])
    assert len(set(checked["out"].tolist())) == 3


OVERWRITING = """
import torch
from bench.declare import implementation
from bench.workloads.rms_norm.eager import eager

class Overwriting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out):
        return out.view_as(out)

    @staticmethod
    def backward(ctx, gradient):
        handed_on = gradient.clone()
        gradient.mul_({factor})
        return handed_on

@implementation(workload="rms_norm")
def overwriting(spec):
    def replace(module):
        module.register_forward_hook(lambda module, inputs, out: Overwriting.apply({out}))
        return module
    return replace
"""


@pytest.mark.parametrize(
    ("factor", "out", "named"),
    [(3.0, "out", "outer gradient of out"), (1.0, "(out, inputs[0].data.mul_(2.0))[0]", "x"), (1.0, "out", None)],
)
def test_what_others_may_still_read_is_left_alone(tmp_path: Path, factor: float, out: str, named: str | None) -> None:
    path = tmp_path / "overwriting.py"
    path.write_text(OVERWRITING.format(factor=factor, out=out))
    reply = answer(tmp_path, rms_norm("overwriting", pass_=Pass.FORWARD_BACKWARD), plugins=(path,))
    found = {check.tensor for check in reply.checks if check.detail == OVERWRITTEN}
    assert found == ({named} if named else set()), reply.traceback
    assert reply.status is (Status.INCORRECT if named else Status.OK)
