"""The semantics of cross-entropy, what its implementations save and lose, and losses that overwrite their logits."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.catalogue.installed import missing_requirements
from bench.declare import Unavailable
from bench.records import Case, Pass, Reply, Status
from bench.worker.step import Step
from bench.workloads.cross_entropy import WORKLOAD, CrossEntropySpec
from bench.workloads.cross_entropy._overwritten import Overwrites
from tests.factories import case as any_case
from tests.worker.trials import answer, only

SPEC = CrossEntropySpec(tokens=40, vocab_size=300, ignored_tokens=6, dtype="fp32")


def loss_case(workload: str, name: str, **params: Any) -> Case:
    changes = {key: params.pop(key) for key in ("pass_", "dtype", "device") if key in params}
    return dataclasses.replace(any_case(name, params=params, **changes), workload=workload, subject={workload: name})


def case(name: str, **params: Any) -> Case:
    return loss_case(
        "cross_entropy", name, **{"tokens": 64, "vocab_size": 500, "ignored": 0.1, "pass_": Pass.FORWARD_BACKWARD, **params}
    )


def needs_liger() -> None:
    if missing := missing_requirements(load_catalogue().implementation("cross_entropy", "liger")):
        pytest.skip(missing[0])


def inputs_of(spec: CrossEntropySpec, seed: int = 3) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(seed))


def built(name: str, spec: CrossEntropySpec = SPEC) -> Any:
    return load_catalogue().implementation("cross_entropy", name).builder(spec)


def test_the_reference_is_the_mean_over_labels_that_count_in_fp64() -> None:
    inputs = inputs_of(SPEC)
    logits, labels = inputs["logits"].double(), inputs["labels"]
    rows = [row for row in range(SPEC.tokens) if labels[row] != -100]
    by_hand = sum(float(logits[row].logsumexp(-1) - logits[row, labels[row]]) for row in rows) / len(rows)
    assert float(WORKLOAD.reference(SPEC, {"logits": logits, "labels": labels}, {})["loss"]) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_eager_is_the_loss_of_transformers(dtype: str) -> None:
    from transformers.loss.loss_utils import ForCausalLMLoss

    spec = dataclasses.replace(SPEC, dtype=dtype)
    inputs = inputs_of(spec)
    theirs = ForCausalLMLoss(inputs["logits"][None], labels=None, vocab_size=300, shift_labels=inputs["labels"])
    assert torch.equal(built("eager", spec)(inputs["logits"], inputs["labels"]), theirs)


def test_exactly_the_share_of_labels_is_ignored_and_drawn_anew() -> None:
    spec = WORKLOAD.spec(case("eager", tokens=1000, ignored=0.25))
    inputs = inputs_of(spec)
    first = inputs["labels"] == -100
    assert int(first.sum()) == spec.ignored_tokens == 250
    WORKLOAD.redraw(spec, inputs, torch.Generator().manual_seed(4))
    assert int((inputs["labels"] == -100).sum()) == 250
    assert not torch.equal(inputs["labels"] == -100, first)


def test_the_small_problem_has_the_whole_vocabulary_and_ignores_some_labels() -> None:
    small = WORKLOAD.small_spec(WORKLOAD.spec(case("eager", tokens=16384, vocab_size=131072, ignored=0.001)))
    assert (small.vocab_size, small.ignored_tokens) == (131072, 1)
    assert small.tokens <= 64
    assert WORKLOAD.small_spec(WORKLOAD.spec(case("eager", tokens=16384, ignored=0.0))).ignored_tokens == 0


def test_labels_are_anything_from_hopeless_to_certain() -> None:
    spec = CrossEntropySpec(tokens=400, vocab_size=1000, ignored_tokens=0, dtype="fp32")
    inputs = inputs_of(spec)
    probability = inputs["logits"].softmax(-1).gather(-1, inputs["labels"][:, None])
    assert float((probability < 0.1).float().mean()) > 0.2
    assert float((probability > 0.9).float().mean()) > 0.2


@pytest.mark.parametrize("name", ["eager", "torch_native"])
def test_ignored_rows_get_no_gradient_and_others_do(name: str) -> None:
    inputs = inputs_of(SPEC)
    logits = inputs["logits"].requires_grad_()
    built(name)(logits, inputs["labels"]).backward()
    assert logits.grad is not None
    moved = logits.grad.abs().sum(-1) > 0
    assert torch.equal(moved, inputs["labels"] != -100)


@pytest.mark.parametrize("name", ["eager", "torch_native"])
def test_with_all_labels_ignored_pytorch_gives_nan_as_the_reference_does(name: str) -> None:
    inputs = inputs_of(SPEC)
    inputs["labels"].fill_(-100)
    assert math.isnan(float(built(name)(inputs["logits"], inputs["labels"])))
    assert math.isnan(float(WORKLOAD.reference(SPEC, inputs, {})["loss"]))


def test_a_share_of_all_labels_cannot_be_asked_for() -> None:
    (ignored,) = [param for param in WORKLOAD.params if param.name == "ignored"]
    assert ignored.below == 1.0
    assert WORKLOAD.spec(case("eager", tokens=3, ignored=0.99)).ignored_tokens == 2


def test_costs_count_the_logits_once_where_both_passes_are_one() -> None:
    spec = dataclasses.replace(SPEC, dtype="bf16")
    forward, backward, both = (WORKLOAD.cost(spec, pass_) for pass_ in (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD))
    assert forward.bytes == 40 * 300 * 2 + 40 * 8
    assert backward.bytes == both.bytes == 2 * 40 * 300 * 2 + 40 * 8
    assert (forward.flops, backward.flops, both.flops) == (4 * 12000, 2 * 12000, 6 * 12000)
    assert both.tokens == 40


def test_pytorch_saves_the_fp32_copy_and_loses_digits_of_the_loss(tmp_path: Path) -> None:
    """12 bytes a logit against 6 (log-softmax, its gradient, that of the logits), and errors that the checks have kept."""
    replies = {}
    for name in ("eager", "torch_native"):
        (tmp_path / name).mkdir()
        replies[name] = answer(tmp_path / name, case(name, tokens=256, dtype="bf16"))
        assert replies[name].status is Status.OK, replies[name].reason
    logits = 256 * 500
    assert only(replies["eager"], "peak_bytes").samples[0] == pytest.approx(12 * logits, rel=0.02)
    assert only(replies["torch_native"], "peak_bytes").samples[0] == pytest.approx(6 * logits, rel=0.02)
    errors = {name: next(check.error for check in reply.checks if check.tensor == "loss") for name, reply in replies.items()}
    assert errors["eager"] is not None
    assert errors["torch_native"] is not None
    assert errors["eager"] < 1e-5 < errors["torch_native"]


class WritesGradientOverLogits(torch.autograd.Function):
    """What a fused kernel does: the gradient is where the logits were, and autograd does not know."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        numbers = logits.detach().double()
        counted = (labels != -100).double()
        columns = labels.clamp(min=0)[:, None]
        loss = ((numbers.logsumexp(-1) - numbers.gather(-1, columns)[:, 0]) * counted).sum() / counted.sum()
        gradient = numbers.softmax(-1).scatter_add_(-1, columns, -torch.ones_like(columns, dtype=torch.float64))
        logits.data.copy_(gradient * (counted / counted.sum())[:, None])
        ctx.save_for_backward(logits.detach())
        return loss.to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = ctx.saved_tensors
        gradient.data.mul_(outer[0])
        return gradient, None


def overwriting_step() -> tuple[Step, dict[str, torch.Tensor]]:
    inputs = inputs_of(SPEC)
    inputs["logits"].requires_grad_()
    bound = WORKLOAD.bind(SPEC, {"cross_entropy": Overwrites(WritesGradientOverLogits.apply)}, {})
    return Step(bound, inputs, {"loss": torch.tensor(2.0)}, Pass.FORWARD_BACKWARD), inputs


def test_a_loss_that_overwrites_its_logits_finds_new_ones_at_each_call() -> None:
    step, inputs = overwriting_step()
    before = inputs["logits"].detach().clone()
    expected = before.clone().requires_grad_()
    (2.0 * WORKLOAD.reference(SPEC, {**inputs, "logits": expected}, {})["loss"]).backward()
    for _ in range(3):
        step.prepare()
        loss = step()["loss"]
        torch.testing.assert_close(inputs["logits"].grad, expected.grad)
        torch.testing.assert_close(loss.detach(), WORKLOAD.reference(SPEC, {**inputs, "logits": before}, {})["loss"])
        assert torch.equal(inputs["logits"], before)
    unprepared = step.bound.forward(inputs)["loss"]
    torch.testing.assert_close(unprepared.detach(), loss.detach())


def test_new_numbers_in_the_inputs_reach_a_loss_that_overwrites() -> None:
    step, inputs = overwriting_step()
    step.prepare()
    first = step()["loss"].item()
    WORKLOAD.redraw(SPEC, inputs, torch.Generator().manual_seed(9))
    step.prepare()
    second = step()["loss"].item()
    assert second != first
    assert second == pytest.approx(WORKLOAD.reference(SPEC, inputs, {})["loss"].item(), rel=1e-5)


def test_the_gradient_of_a_loss_that_overwrites_stays_where_it_was_written() -> None:
    """Copied on its way to the inputs it would cost as much memory as the logits, which no training pays for."""
    used: list[int] = []

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        used.append(logits.data_ptr())
        return WritesGradientOverLogits.apply(logits, labels)  # type: ignore[no-any-return]

    inputs = inputs_of(SPEC)
    inputs["logits"].requires_grad_()
    step = Step(
        WORKLOAD.bind(SPEC, {"cross_entropy": Overwrites(loss)}, {}), inputs, {"loss": torch.tensor(2.0)}, Pass.FORWARD_BACKWARD
    )
    for _ in range(2):
        step.prepare()
        step()
    assert inputs["logits"].grad is not None
    assert {*used, inputs["logits"].grad.data_ptr()} == {used[0]}
    assert used[0] != inputs["logits"].data_ptr()


def test_the_copy_for_a_loss_that_overwrites_is_made_before_the_call() -> None:
    bound = WORKLOAD.bind(SPEC, {"cross_entropy": Overwrites(lambda logits, labels: logits[0, 0])}, {})
    step = Step(bound, inputs_of(SPEC), {}, Pass.FORWARD)
    step()

    def operators() -> set[str]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
            step()
        return {event.name for event in profile.events() or ()}

    step.prepare()
    assert "aten::copy_" not in operators()
    assert "aten::copy_" in operators()  # nobody had prepared this one


@pytest.mark.parametrize(
    ("workload", "name", "module"),
    [
        ("cross_entropy", "liger", "liger_kernel.transformers.functional"),
        ("linear_cross_entropy", "liger", "liger_kernel.transformers.functional"),
        ("distillation_loss", "liger", "liger_kernel.ops.fused_linear_jsd"),
        ("distillation_loss", "liger_chunked", "liger_kernel.chunked_loss"),
        ("preference_loss", "liger_chunked", "liger_kernel.chunked_loss"),
    ],
)
def test_a_liger_kernel_that_has_moved_its_loss_is_unavailable(
    workload: str, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = module.split(".")
    emptied = [types.ModuleType(".".join(words[: end + 1])) for end in range(len(words))]
    for outer, inner in itertools.pairwise(emptied):
        setattr(outer, inner.__name__.rpartition(".")[2], inner)
    for empty in emptied:
        monkeypatch.setitem(sys.modules, empty.__name__, empty)
    catalogue = load_catalogue()
    loss = {"divergence": "jsd"} if workload == "distillation_loss" else {"loss": "dpo"} if workload == "preference_loss" else {}
    shape = {"batch": 2, "seq_len": 8, "prompt": 0.2} if workload == "preference_loss" else {"tokens": 8, "ignored": 0.2}
    spec = catalogue.workloads[workload].spec(loss_case(workload, name, hidden_size=8, vocab_size=16, **shape, **loss))
    with pytest.raises(Unavailable, match="elsewhere"):
        catalogue.implementation(workload, name).builder(spec)


@pytest.mark.slow
def test_liger_is_right_in_the_interpreter_and_needs_no_memory_for_the_gradient(
    interpreted: Callable[..., list[Reply]],
) -> None:
    needs_liger()
    on = {"device": "cpu-interpreter"}
    cases = [
        case("liger", **on),
        case("eager", **on),
        case("liger", pass_=Pass.FORWARD, **on),
        case("liger", pass_=Pass.BACKWARD, **on),
    ]
    liger, eager, forward, backward = interpreted(*cases)
    for reply in (liger, eager, forward):
        assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
        assert reply.proof is not None
        assert reply.proof.verdict == "proved", reply.proof.detail
    logits_bytes = 64 * 500 * 4
    assert only(eager, "peak_bytes").samples[0] >= 3 * logits_bytes
    assert only(liger, "peak_bytes").samples[0] < logits_bytes / 10
    assert backward.status is Status.UNSUPPORTED
    assert "passes forward, forward_backward" in str(backward.reason)


@pytest.mark.slow
def test_compiled_is_right_and_holds_no_fp32_copy(tmp_path: Path) -> None:
    torch._dynamo.reset()  # trials have a process each, and these share one with its limit of recompilations
    reply = answer(tmp_path, case("compiled", tokens=256, dtype="bf16"))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"
    assert only(reply, "peak_bytes").samples[0] < 6 * 256 * 500


@pytest.mark.parametrize("workload", ["cross_entropy", "linear_cross_entropy", "distillation_loss"])
def test_the_slice_of_a_loss_is_a_gradient_that_only_counts_the_labels_of_the_others(workload: str) -> None:
    """The part computed alone gives the whole problem's gradient there; the mean over everything has no part."""
    work = load_catalogue().workloads[workload]
    more = {"divergence": "jsd"} if workload == "distillation_loss" else {}
    spec = work.spec(loss_case(workload, "eager", tokens=40, vocab_size=2**17, hidden_size=8, ignored=0.3, dtype="fp64", **more))
    sliced = work.slice(spec)
    assert sliced is not None
    part, pick = sliced
    inputs = work.make_inputs(spec, "cpu", torch.Generator().manual_seed(3))

    def gradients(of: Any, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        leaves = {name: tensor.clone() for name, tensor in given.items()}
        wanted = [name for name in leaves if name not in work.constants]
        for name in wanted:
            leaves[name].requires_grad_()
        loss = work.reference(of, leaves, {})["loss"]
        return dict(zip(wanted, torch.autograd.grad(loss, [leaves[name] for name in wanted]), strict=True))

    picked = {name: pick(name, tensor) for name, tensor in inputs.items()}
    alone = gradients(part, {name: tensor for name, tensor in picked.items() if tensor is not None})
    whole = {name: pick(f"grad_{name}", gradient) for name, gradient in gradients(spec, inputs).items()}
    compared = [name for name, gradient in whole.items() if gradient is not None]
    assert compared
    for name in compared:
        torch.testing.assert_close(alone[name], whole[name])
        assert len(alone[name]) < 40
    assert {int(token) for token in pick("labels", torch.arange(40)) // 10} == {0, 1, 2, 3}  # type: ignore[union-attr]
    assert pick("labels", torch.arange(40))[-1] == 39  # type: ignore[index]
    assert pick("loss", torch.zeros(())) is None
