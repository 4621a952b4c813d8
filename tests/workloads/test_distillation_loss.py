"""The semantics of distillation losses, and Liger's two ways to compute them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.records import Case, Pass, Reply, Status
from bench.workloads.distillation_loss import WEIGHT_OF_TEACHER, WORKLOAD, DistillationSpec
from tests.worker.trials import answer, only
from tests.workloads.test_cross_entropy import loss_case, needs_liger

DIVERGENCES = list(WEIGHT_OF_TEACHER)
SPEC = DistillationSpec("jsd", tokens=30, hidden_size=16, vocab_size=50, ignored_tokens=5, dtype="fp64")


def case(name: str, **params: Any) -> Case:
    shape = {"tokens": 96, "hidden_size": 32, "vocab_size": 256, "ignored": 0.1, "divergence": "jsd"}
    return loss_case("distillation_loss", name, **{**shape, "pass_": Pass.FORWARD_BACKWARD, **params})


def inputs_of(spec: DistillationSpec) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(3))


def probabilities(inputs: dict[str, torch.Tensor], model: str) -> torch.Tensor:
    return (inputs[f"{model}_hidden"] @ inputs[f"{model}_weight"].t()).softmax(-1)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_reference_and_eager_are_the_papers_sums(divergence: str) -> None:
    spec = dataclasses.replace(SPEC, divergence=divergence)
    inputs = inputs_of(spec)
    student, teacher = probabilities(inputs, "student"), probabilities(inputs, "teacher")

    def kl(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * (a / b).log()).sum(-1)

    middle = (student + teacher) / 2
    each = {
        "jsd": (kl(student, middle) + kl(teacher, middle)) / 2,
        "forward_kl": kl(teacher, student),
        "reverse_kl": kl(student, teacher),
    }[divergence]
    expected = each[inputs["labels"] != -100].mean()
    torch.testing.assert_close(WORKLOAD.reference(spec, inputs, {})["loss"], expected)
    eager = load_catalogue().implementation("distillation_loss", "eager").builder(spec)
    torch.testing.assert_close(WORKLOAD.bind(spec, {"distillation_loss": eager}, {}).forward(inputs)["loss"], expected)


def test_a_student_that_is_its_teacher_loses_nothing_and_jsd_is_at_most_log_2() -> None:
    inputs = inputs_of(SPEC)
    assert 0.0 < float(WORKLOAD.reference(SPEC, inputs, {})["loss"]) < math.log(2.0)
    same = {**inputs, "teacher_hidden": inputs["student_hidden"], "teacher_weight": inputs["student_weight"]}
    assert float(WORKLOAD.reference(SPEC, same, {})["loss"]) == pytest.approx(0.0, abs=1e-12)


def test_only_the_student_learns() -> None:
    assert WORKLOAD.constants == {"teacher_hidden", "teacher_weight", "labels"}


def test_a_tolerance_is_for_16_bits_and_hardly_anything_for_more() -> None:
    granted = {dtype: WORKLOAD.tolerance(dataclasses.replace(SPEC, dtype=dtype), 0.1) for dtype in ("bf16", "fp16", "tf32", "fp32")}
    assert granted == {"bf16": 0.1, "fp16": 0.1, "tf32": 1e-2, "fp32": 1e-4}


def test_costs_are_two_products_each_way_and_each_tensor_once() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_) for pass_ in (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD))
    product, model = 2 * 30 * 16 * 50, (30 + 50) * 16 * 8
    assert (forward.flops, backward.flops, both.flops) == (2 * product, 2 * product, 4 * product)
    assert forward.bytes == 2 * model + 30 * 8
    assert both.bytes == 3 * model + 30 * 8


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_eager_measures_and_is_proved(tmp_path: Path, divergence: str) -> None:
    reply = answer(tmp_path, case("eager", divergence=divergence, dtype="bf16"))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"


@pytest.mark.slow
def test_liger_is_right_in_the_interpreter_and_holds_less(interpreted: Callable[..., list[Reply]]) -> None:
    needs_liger()
    on = {"device": "cpu-interpreter"}
    *ligers, eager = interpreted(*(case("liger", divergence=name, **on) for name in DIVERGENCES), case("eager", **on))
    for name, reply in zip(DIVERGENCES, ligers, strict=True):
        assert reply.status is Status.OK, f"{name}: {reply.reason}\n{reply.traceback}"
        assert reply.proof is not None
        assert reply.proof.verdict == "proved", reply.proof.detail
    assert only(ligers[DIVERGENCES.index("jsd")], "peak_bytes").samples[0] < only(eager, "peak_bytes").samples[0] / 2


@pytest.mark.slow
def test_ligers_chunked_loss_is_right_on_a_cpu(tmp_path: Path) -> None:
    torch._dynamo.reset()  # trials have a process each, and these share one with its limit of recompilations
    needs_liger()
    reply = answer(tmp_path, case("liger_chunked"))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof.detail
