"""The semantics of preference losses: each against its paper's formula, written out by sequence and token."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.records import Case, Pass, Status
from bench.workloads.preference_loss import EXTRAS, LOSSES, WORKLOAD, PreferenceSpec
from tests.worker.trials import answer, only
from tests.workloads.test_cross_entropy import loss_case, needs_liger

SPEC = PreferenceSpec("dpo", sequences=6, seq_len=12, hidden_size=16, vocab_size=40, prompt=0.3, dtype="fp64")


def case(name: str, loss: str, **params: Any) -> Case:
    shape = {"batch": 4, "seq_len": 24, "hidden_size": 32, "vocab_size": 256, "prompt": 0.25, "loss": loss}
    return loss_case("preference_loss", name, **{**shape, "pass_": Pass.FORWARD_BACKWARD, **params})


def inputs_of(spec: PreferenceSpec) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(3))


def answers(inputs: dict[str, torch.Tensor], prefix: str = "") -> list[list[float]]:
    """For each sequence the log-probabilities of its answer's tokens."""
    logp = (inputs[f"{prefix}hidden"].double() @ inputs[f"{prefix}weight"].double().t()).log_softmax(-1)
    found = []
    for sequence, labels in enumerate(inputs["labels"].tolist()):
        found.append([float(logp[sequence, token, label]) for token, label in enumerate(labels) if label != -100])
    return found


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def by_hand(loss: str, inputs: dict[str, torch.Tensor]) -> float:
    found = answers(inputs)
    pairs = list(zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True))
    means = [(sum(chosen) / len(chosen), sum(rejected) / len(rejected)) for chosen, rejected in pairs]
    if loss == "dpo":
        old = answers(inputs, "reference_")
        ratios = [sum(new) - sum(reference) for new, reference in zip(found, old, strict=True)]
        margins = [ratios[pair] - ratios[pair + len(pairs)] for pair in range(len(pairs))]
        return -sum(log_sigmoid(0.1 * margin) for margin in margins) / len(pairs)
    if loss == "simpo":
        return -sum(log_sigmoid(2.0 * (chosen - rejected) - 1.0) for chosen, rejected in means) / len(pairs)
    if loss == "orpo":
        tokens = [logp for chosen, _ in pairs for logp in chosen]
        odds = [tuple(mean - math.log(1.0 - math.exp(mean)) for mean in pair) for pair in means]
        return -sum(tokens) / len(tokens) - 0.1 * sum(log_sigmoid(chosen - rejected) for chosen, rejected in odds) / len(pairs)
    each = []
    for sequence, logps in enumerate(found):
        first = len(inputs["labels"][sequence]) - len(logps)
        behind = [float(inputs["reference_logp"][sequence, first + token]) - logp for token, logp in enumerate(logps)]
        penalty = sum(math.exp(d) - d - 1.0 for d in behind) / len(logps)
        each.append(-float(inputs["advantages"][sequence]) + 0.04 * penalty)
    return sum(each) / len(each)


@pytest.mark.parametrize("loss", LOSSES)
def test_reference_and_eager_are_the_papers_formula(loss: str) -> None:
    spec = dataclasses.replace(SPEC, loss=loss)
    inputs = inputs_of(spec)
    expected = by_hand(loss, inputs)
    assert float(WORKLOAD.reference(spec, inputs, {})["loss"]) == pytest.approx(expected, rel=1e-9)
    eager = load_catalogue().implementation("preference_loss", "eager").builder(spec)
    bound = WORKLOAD.bind(spec, {"preference_loss": eager}, {})
    assert float(bound.forward(inputs)["loss"]) == pytest.approx(expected, rel=1e-9)


def test_grpos_gradient_is_that_of_the_policy_and_not_only_of_the_penalty() -> None:
    spec = dataclasses.replace(SPEC, loss="grpo")
    inputs = inputs_of(spec)

    def gradient(advantages: torch.Tensor) -> torch.Tensor:
        hidden = inputs["hidden"].clone().requires_grad_()
        WORKLOAD.reference(spec, {**inputs, "hidden": hidden, "advantages": advantages}, {})["loss"].backward()
        assert hidden.grad is not None
        return hidden.grad

    at_zero, at_one = gradient(torch.zeros(6)), gradient(torch.ones(6))
    hidden = inputs["hidden"].clone().requires_grad_()
    logp = (hidden @ inputs["weight"].t()).log_softmax(-1).gather(-1, inputs["labels"].clamp(min=0)[..., None])[..., 0]
    answer = inputs["labels"] != -100
    (-((logp * answer).sum(-1) / answer.sum(-1)).mean()).backward()
    torch.testing.assert_close(at_one - at_zero, hidden.grad)


def test_prompts_differ_in_length_and_leave_an_answer() -> None:
    labels = inputs_of(dataclasses.replace(SPEC, sequences=40))["labels"]
    prompts = (labels == -100).sum(-1)
    assert len(set(prompts.tolist())) > 3
    assert int(prompts.max()) < 12
    for sequence, prompt in zip(labels, prompts, strict=True):
        assert bool((sequence[:prompt] == -100).all())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_has_the_constants_that_it_reads_and_they_learn_nothing(loss: str) -> None:
    inputs = inputs_of(dataclasses.replace(SPEC, loss=loss))
    assert set(inputs) == {"hidden", "weight", "labels", *EXTRAS[loss]}
    assert set(inputs) - WORKLOAD.constants == {"hidden", "weight"}


@pytest.mark.parametrize("loss", ["simpo", "grpo"])
def test_the_slice_is_the_gradient_of_the_last_pair(loss: str) -> None:
    spec = dataclasses.replace(SPEC, loss=loss)
    part, pick = WORKLOAD.slice(spec)  # type: ignore[misc]
    inputs = inputs_of(spec)

    def gradient(of: PreferenceSpec, given: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = given["hidden"].clone().requires_grad_()
        return torch.autograd.grad(WORKLOAD.reference(of, {**given, "hidden": hidden}, {})["loss"], hidden)[0]

    picked = {name: tensor if name.endswith("weight") else pick(name, tensor) for name, tensor in inputs.items()}
    whole = gradient(spec, inputs)
    torch.testing.assert_close(gradient(part, picked), whole[[2, 5]])  # type: ignore[arg-type]
    assert torch.equal(pick("grad_hidden", whole), whole[[2, 5]])  # type: ignore[arg-type]
    assert [pick(name, whole) for name in ("loss", "grad_weight")] == [None, None]


@pytest.mark.parametrize("loss", ["dpo", "orpo"])
def test_what_cannot_be_compared_by_pairs_has_no_slice(loss: str) -> None:
    assert WORKLOAD.slice(dataclasses.replace(SPEC, loss=loss)) is None


def test_an_odd_number_of_sequences_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="must be even"):
        WORKLOAD.spec(case("eager", "dpo", batch=3))


def test_costs_count_dpos_reference_and_prompts() -> None:
    product = 2 * 6 * 12 * 16 * 40
    flops = {loss: WORKLOAD.cost(dataclasses.replace(SPEC, loss=loss), Pass.FORWARD_BACKWARD).flops for loss in LOSSES}
    assert flops == {"dpo": 4 * product, "orpo": 3 * product, "simpo": 3 * product, "grpo": 3 * product}
    model, labels = (6 * 12 + 40) * 16 * 8, 8 * 72
    assert WORKLOAD.cost(SPEC, Pass.FORWARD).bytes == 2 * model + labels
    assert WORKLOAD.cost(SPEC, Pass.FORWARD_BACKWARD).bytes == 3 * model + labels
    assert WORKLOAD.cost(dataclasses.replace(SPEC, loss="grpo"), Pass.FORWARD).bytes == model + labels + 4 * (72 + 6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_eager_measures_and_is_proved(tmp_path: Path, loss: str, dtype: str) -> None:
    reply = answer(tmp_path, case("eager", loss, dtype=dtype))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_ligers_chunked_loss_is_right_on_a_cpu_and_holds_less(tmp_path: Path, loss: str) -> None:
    torch._dynamo.reset()  # trials have a process each, and these share one with its limit of recompilations
    needs_liger()
    peaks = {}
    without_compiler = ["liger_chunked_eager"] if loss == "grpo" else []
    for name in ("eager", "liger_chunked", *without_compiler):
        (tmp_path / name).mkdir()
        reply = answer(tmp_path / name, case(name, loss, batch=8, seq_len=64))
        assert reply.status is Status.OK, f"{name}: {reply.reason}\n{reply.traceback}"
        assert reply.proof is not None
        assert reply.proof.verdict == "proved", reply.proof.detail
        peaks[name] = only(reply, "peak_bytes").samples[0]
    assert max(peaks[name] for name in ("liger_chunked", *without_compiler)) < peaks["eager"] / 2


def test_where_torch_cannot_compile_ligers_loss_the_row_says_what_else_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_liger()
    from bench.workloads.preference_loss import liger_chunked

    def fails(*_: object, **__: object) -> torch.Tensor:
        raise AssertionError("sources must not be empty for symbol s37")

    monkeypatch.setattr(liger_chunked, "chunked", lambda spec, compiled: fails)
    reply = answer(tmp_path, case("liger_chunked", "grpo", batch=8, seq_len=64))
    assert reply.status is Status.UNSUPPORTED
    assert "compiled=False, which is measured as liger_chunked_eager" in str(reply.reason)
