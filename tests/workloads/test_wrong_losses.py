"""Losses that are right where everything is checked and wrong at the size that is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.records import Pass, Reply, Status
from tests.worker.trials import answer
from tests.workloads.test_cross_entropy import loss_case

WITHOUT_A_GRADIENT = """
import torch
from bench.declare import implementation

@implementation(workload="{workload}")
def wrong(spec):
    from bench.workloads.{workload}.eager import eager
    right = eager.builder(spec)

    def loss(rows, *others):
        if rows.shape[{axis}] > {checked}:
            rows = rows.view_as(rows)
            rows.register_hook(lambda gradient: gradient.index_fill({axis}, torch.arange(rows.shape[{axis}] // 2), 0.0))
        return right(rows, *others)

    return loss
"""
"""Like a kernel whose grid is too small: what belongs to the first half of an axis gets no gradient."""


def verdict(directory: Path, workload: str, axis: int, checked: int, params: dict[str, Any]) -> Reply:
    path = directory / "wrong.py"
    path.write_text(WITHOUT_A_GRADIENT.format(workload=workload, axis=axis, checked=checked))
    case = loss_case(workload, "wrong", **params, pass_=Pass.FORWARD_BACKWARD)
    reply = answer(directory, case, plugins=(path,))
    assert reply.status is Status.INCORRECT, f"{reply.reason}\n{reply.traceback}"
    return reply


@pytest.mark.parametrize(
    ("workload", "params"),
    [
        ("cross_entropy", {}),
        ("linear_cross_entropy", {"hidden_size": 16}),
        ("distillation_loss", {"hidden_size": 16, "divergence": "jsd"}),
    ],
)
def test_rows_without_a_gradient_are_found_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: str, params: dict[str, Any]
) -> None:
    monkeypatch.setattr(f"bench.workloads.{workload}.SLICE_ELEMENTS", 8 * 64)
    reply = verdict(tmp_path, workload, 0, 200, {"tokens": 400, "vocab_size": 64, "ignored": 0.1, **params})
    assert "measured" in {check.at for check in reply.checks if not check.passed}


@pytest.mark.parametrize("loss", ["simpo", "grpo"])
def test_tokens_of_answers_without_a_gradient_are_found(tmp_path: Path, loss: str) -> None:
    shape = {"batch": 6, "seq_len": 48, "hidden_size": 32, "vocab_size": 64, "prompt": 0.25}
    reply = verdict(tmp_path, "preference_loss", 1, 24, {"loss": loss, **shape})
    assert {(check.tensor, check.at) for check in reply.checks if not check.passed} == {("grad_hidden", "measured")}


WRONG_SUMS = """
import torch
from bench.declare import implementation

@implementation(workload="{workload}")
def wrong(spec):
    from bench.workloads.{workload}.eager import eager
    right = eager.builder(spec)

    def loss(rows, *others):
        found = right(rows, *others)
        return {wrong} if len(rows) > 200 else found

    return loss
"""
HALF_MORE = "found + 0.5"
WEIGHT_TWICE = "found + (again := right(rows.detach(), *others)) - again.detach()"


@pytest.mark.parametrize(
    ("workload", "params", "wrong", "named"),
    [
        ("cross_entropy", {}, HALF_MORE, "loss"),
        ("linear_cross_entropy", {"hidden_size": 16}, HALF_MORE, "loss"),
        ("linear_cross_entropy", {"hidden_size": 16}, WEIGHT_TWICE, "grad_weight"),
        ("distillation_loss", {"hidden_size": 16, "divergence": "jsd"}, HALF_MORE, "loss"),
        ("distillation_loss", {"hidden_size": 16, "divergence": "jsd"}, WEIGHT_TWICE, "grad_student_weight"),
        ("divergence_loss", {"between": "kl"}, HALF_MORE, "loss"),
        ("divergence_loss", {"between": "jsd"}, HALF_MORE, "loss"),
    ],
)
def test_means_and_sums_over_all_rows_are_compared_where_all_but_some_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: str, params: dict[str, Any], wrong: str, named: str
) -> None:
    monkeypatch.setattr(f"bench.workloads.{workload}.SLICE_ELEMENTS", 8 * 64)
    path = tmp_path / "wrong.py"
    path.write_text(WRONG_SUMS.format(workload=workload, wrong=wrong))
    shape = {"tokens": 400, "vocab_size": 64, "ignored": 0.1, **params}
    reply = answer(tmp_path, loss_case(workload, "wrong", **shape, pass_=Pass.FORWARD_BACKWARD), plugins=(path,))
    assert reply.status is Status.INCORRECT, f"{reply.reason}\n{reply.traceback}"
    assert {(check.tensor, check.at) for check in reply.checks if not check.passed} == {(named, "isolated")}
