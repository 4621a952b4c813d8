"""The semantics of the last layer with its loss, and what is saved by never holding all logits."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.errors import Unavailable, Unsupported
from bench.records import Case, Pass, Reply, Status
from bench.workloads.linear_cross_entropy import WORKLOAD, LinearCrossEntropySpec
from bench.workloads.linear_cross_entropy.chunked import FEWEST_ROWS, rows_at_once
from tests.worker.trials import answer, only
from tests.workloads.test_cross_entropy import loss_case, needs_liger

SPEC = LinearCrossEntropySpec(tokens=300, hidden_size=16, vocab_size=200, ignored_tokens=20, dtype="fp32")
IN_CHUNKS = ["torch_native", "chunked"]


def case(name: str, **params: Any) -> Case:
    shape = {"tokens": 1024, "hidden_size": 64, "vocab_size": 1024, "ignored": 0.1}
    return loss_case("linear_cross_entropy", name, **{**shape, "pass_": Pass.FORWARD_BACKWARD, **params})


def built(name: str, spec: LinearCrossEntropySpec = SPEC) -> Any:
    return load_catalogue().implementation("linear_cross_entropy", name).builder(spec)


def inputs_of(
    spec: LinearCrossEntropySpec = SPEC, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    inputs = WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(3))
    return inputs["hidden"].to(dtype), inputs["weight"].to(dtype), inputs["labels"]


def gradients(
    loss: Any, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, outer: float = -0.75
) -> list[torch.Tensor]:
    leaves = [hidden.clone().requires_grad_(), weight.clone().requires_grad_()]
    value = loss(*leaves, labels)
    return [value.detach(), *torch.autograd.grad(value, leaves, torch.full_like(value, outer))]


def test_the_reference_is_the_cross_entropy_of_a_linear_layer() -> None:
    hidden, weight, labels = inputs_of()
    expected = torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, weight), labels)
    got = WORKLOAD.reference(SPEC, {"hidden": hidden, "weight": weight, "labels": labels}, {})["loss"]
    torch.testing.assert_close(got, expected)


def test_logits_are_normal() -> None:
    hidden, weight, _ = inputs_of(dataclasses.replace(SPEC, hidden_size=256))
    assert float((hidden @ weight.t()).std()) == pytest.approx(1.0, abs=0.05)


def test_eager_is_a_causal_models_head_and_loss_in_transformers() -> None:
    from transformers.loss.loss_utils import ForCausalLMLoss

    hidden, weight, labels = inputs_of(dtype=torch.bfloat16)
    logits = torch.nn.functional.linear(hidden, weight)
    theirs = ForCausalLMLoss(logits[None], labels=None, vocab_size=200, shift_labels=labels)
    assert torch.equal(built("eager")(hidden, weight, labels), theirs)


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_a_loss_in_chunks_is_the_plain_one_to_the_last_bits_of_fp64(name: str) -> None:
    arguments = inputs_of()
    for got, expected in zip(gradients(built(name), *arguments), gradients(built("eager"), *arguments), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-15)


def test_chunked_gives_only_the_gradients_that_are_asked_for() -> None:
    hidden, weight, labels = inputs_of()
    _, of_hidden, of_weight = gradients(built("chunked"), hidden, weight, labels, outer=1.0)
    hidden.requires_grad_()
    built("chunked")(hidden, weight, labels).backward()
    torch.testing.assert_close(hidden.grad, of_hidden)
    hidden = hidden.detach()
    weight.requires_grad_()
    built("chunked")(hidden, weight, labels).backward()
    torch.testing.assert_close(weight.grad, of_weight)


def test_chunked_refuses_a_second_backward_rather_than_scale_twice() -> None:
    hidden, weight, labels = inputs_of()
    loss = built("chunked")(hidden.requires_grad_(), weight, labels)
    loss.backward(torch.tensor(2.0), retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward(torch.tensor(2.0))


def test_a_chunk_has_about_as_many_logits_as_there_are_hidden_states() -> None:
    assert rows_at_once(32768, 4096, 128256) == 1024
    assert rows_at_once(4096, 4096, 128256) == FEWEST_ROWS
    assert rows_at_once(8, 16, 200) == FEWEST_ROWS


@pytest.mark.parametrize("name", ["eager", "chunked"])
def test_with_all_labels_ignored_the_loss_is_nan(name: str) -> None:
    hidden, weight, labels = inputs_of()
    assert math.isnan(float(built(name)(hidden, weight, torch.full_like(labels, -100))))


def test_costs_are_three_products_and_each_tensor_once() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_) for pass_ in (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD))
    product = 2 * 300 * 16 * 200
    assert (forward.flops, backward.flops, both.flops) == (product, 2 * product, 3 * product)
    assert forward.bytes == (300 + 200) * 16 * 4 + 300 * 8
    assert backward.bytes == both.bytes == 2 * (300 + 200) * 16 * 4 + 300 * 8


def measured(directory: Path, name: str, **params: Any) -> Reply:
    directory.mkdir()
    reply = answer(directory, case(name, **params))
    assert reply.status is Status.OK, f"{name}: {reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof.detail
    return reply


def test_whoever_works_in_chunks_holds_a_fraction_of_the_logits(tmp_path: Path) -> None:
    """Eager: three fp32 tensors of logits. In chunks: both gradients, and logits of some rows."""
    peaks = {name: only(measured(tmp_path / name, name), "peak_bytes").samples[0] for name in ["eager", *IN_CHUNKS]}
    logits, resident_gradients = 1024 * 1024 * 4, (1024 + 1024) * 64 * 4
    assert peaks["eager"] == pytest.approx(3 * logits, rel=0.1)
    for name in IN_CHUNKS:
        assert resident_gradients < peaks[name] < resident_gradients + logits / 2, name


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_without_gradients_only_a_chunk_of_logits_is_held(tmp_path: Path, name: str) -> None:
    peak = only(measured(tmp_path / name, name, pass_=Pass.FORWARD), "peak_bytes").samples[0]
    assert peak < 1024 * 1024 * 4 / 2


@pytest.mark.parametrize("name", [*IN_CHUNKS, "liger", "compiled_chunked"])
def test_who_makes_gradients_in_the_forward_has_no_backward_alone(name: str) -> None:
    of_interest = case(name, pass_=Pass.BACKWARD, device="cuda")
    refusal = load_catalogue().implementation("linear_cross_entropy", name).declared_refusal(of_interest)
    assert refusal is not None
    assert refusal.endswith("not backward")


@pytest.mark.slow
def test_liger_is_right_in_the_interpreter_and_holds_a_fraction_of_the_logits(interpreted: Callable[..., list[Reply]]) -> None:
    needs_liger()
    shape = {"device": "cpu-interpreter", "tokens": 256, "hidden_size": 32, "vocab_size": 512}
    (reply,) = interpreted(case("liger", **shape))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof.detail
    assert only(reply, "peak_bytes").samples[0] < 256 * 512 * 4 / 2


@pytest.mark.slow
def test_inductors_chunker_cuts_and_is_right(tmp_path: Path) -> None:
    torch._dynamo.reset()  # trials have a process each, and these share one with its limit of recompilations
    plain = only(measured(tmp_path / "compiled", "compiled"), "peak_bytes").samples[0]
    cut = only(measured(tmp_path / "cut", "compiled_chunked"), "peak_bytes").samples[0]
    assert cut < plain / 2


@pytest.mark.slow
def test_a_computation_that_inductor_does_not_cut_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()  # trials have a process each, and these share one with its limit of recompilations
    from torch._dynamo.utils import counters
    from torch._inductor import metrics
    from torch._inductor.utils import fresh_cache

    # What tests before this one counted and compiled is not this one's.
    monkeypatch.setattr(metrics, "num_auto_chunking", 0)
    monkeypatch.setitem(counters, "aot_autograd", Counter())
    loss = built("compiled_chunked")
    with (
        fresh_cache(),
        torch.no_grad(),
        pytest.raises(Unsupported, match="did not cut"),
    ):  # without a backward there is nothing to cut for it
        loss(*inputs_of(dtype=torch.float32))


def test_a_torch_without_the_chunker_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor

    monkeypatch.setattr(torch._inductor, "list_options", lambda: ["max_autotune"])
    with pytest.raises(Unavailable, match=r"auto_chunker\.enable"):
        built("compiled_chunked")


def test_a_torch_without_its_own_chunks_is_unavailable_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.nn, "LinearCrossEntropyOptions")
    with pytest.raises(Unavailable, match=r"torch 2\.13 has one"):
        built("torch_native")
