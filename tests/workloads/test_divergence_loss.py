"""The semantics of divergences between given distributions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from bench.records import Pass, Reply, Status
from bench.workloads.divergence_loss import DIVERGENCES, WORKLOAD, DivergenceSpec
from tests.worker.trials import only
from tests.workloads.test_cross_entropy import loss_case, needs_liger

SPEC = DivergenceSpec(divergence="kl", tokens=20, vocab_size=50, dtype="fp64")


def inputs(spec: DivergenceSpec) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(7))


def of(divergence: str) -> DivergenceSpec:
    return dataclasses.replace(SPEC, divergence=divergence)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_student_gets_log_probabilities_and_the_teacher_what_the_divergence_takes(divergence: str) -> None:
    drawn = inputs(of(divergence))
    torch.testing.assert_close(drawn["student"].exp().sum(-1), torch.ones(20, dtype=torch.float64), rtol=1e-6, atol=0)
    teacher = drawn["teacher"] if divergence == "kl" else drawn["teacher"].exp()
    torch.testing.assert_close(teacher.sum(-1), torch.ones(20, dtype=torch.float64), rtol=1e-6, atol=0)


def test_kl_is_that_of_torchs_distributions_and_jsd_is_symmetric_below_log_2() -> None:
    from torch.distributions import Categorical, kl_divergence

    drawn = inputs(of("kl"))
    expected = kl_divergence(Categorical(probs=drawn["teacher"]), Categorical(logits=drawn["student"])).mean()
    torch.testing.assert_close(WORKLOAD.reference(of("kl"), drawn, {})["loss"], expected, rtol=1e-6, atol=1e-8)
    logs = inputs(of("jsd"))
    swapped = {"student": logs["teacher"], "teacher": logs["student"]}
    loss = WORKLOAD.reference(of("jsd"), logs, {})["loss"]
    torch.testing.assert_close(loss, WORKLOAD.reference(of("jsd"), swapped, {})["loss"])
    assert 0 < float(loss) < 0.6931


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_slice_is_the_gradient_of_some_tokens_by_the_mean_over_all(divergence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = of(divergence)
    drawn = inputs(spec)
    monkeypatch.setattr("bench.workloads.divergence_loss.SLICE_ELEMENTS", 4 * 50)
    sliced = WORKLOAD.slice(spec)
    assert sliced is not None
    part, pick = sliced
    assert (part.tokens, pick("loss", torch.tensor(1.0))) == (4, None)

    def gradient(of_spec: DivergenceSpec, named: dict[str, torch.Tensor]) -> torch.Tensor:
        student = named["student"].clone().requires_grad_()
        return torch.autograd.grad(WORKLOAD.reference(of_spec, {**named, "student": student}, {})["loss"], student)[0]

    picked = {name: pick(name, tensor) for name, tensor in drawn.items()}
    torch.testing.assert_close(gradient(part, picked), pick("grad_student", gradient(spec, drawn)))  # type: ignore[arg-type]


@pytest.mark.slow
def test_liger_is_right_in_the_interpreter_and_holds_fewer_tensors(interpreted: Callable[..., list[Reply]]) -> None:
    needs_liger()
    shape = {"tokens": 40, "vocab_size": 300, "device": "cpu-interpreter", "pass_": Pass.FORWARD_BACKWARD}
    cases = [loss_case("divergence_loss", name, between=between, **shape) for between in DIVERGENCES for name in ("eager", "liger")]
    replies = interpreted(*cases)
    for reply in replies:
        assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
        assert reply.proof is not None
        assert reply.proof.verdict == "proved"
    kl, kl_of_liger, jsd, jsd_of_liger = (only(reply, "peak_bytes").samples[0] for reply in replies)
    assert kl_of_liger < kl
    assert jsd_of_liger < jsd / 2
