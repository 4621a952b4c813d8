"""What a training step sees and counts: accumulation, packed documents, padding, clipping, and tokens that can be learned."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._data import IGNORED, SUCCESSORS, make_batch
from bench.workloads.train_step._spec import TrainStepSpec
from bench.workloads.train_step._step import TrainingStep, unheard
from tests.workloads.training import losses, step_of, training


def batch(spec: TrainStepSpec, seed: int = 0) -> dict[str, torch.Tensor]:
    return make_batch(spec, torch.Generator().manual_seed(seed))


def gradients(step: TrainingStep, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    with step.running():
        step.differentiate(inputs, unheard)
    return {name: weight.grad.clone() for name, weight in step.model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("packing", ["full", "packed"])
def test_accumulation_gives_the_gradients_of_one_larger_batch(packing: str) -> None:
    small, large = step_of(training(batch=2, accumulation=3, packing=packing)), step_of(training(batch=6, packing=packing))
    inputs = batch(large.spec)
    assert inputs["input_ids"].equal(batch(small.spec)["input_ids"])
    expected = gradients(large, inputs)
    for name, gradient in gradients(small, inputs).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
    assert float(small(inputs)["loss"]) == pytest.approx(float(large(inputs)["loss"]), abs=1e-5)


@pytest.mark.parametrize("attention", ["eager", "sdpa_math", "sdpa_flash"])
def test_packed_documents_do_not_see_each_other(attention: str) -> None:
    packed = step_of(training(packing="packed", documents=3, fills={"attention": attention}))
    inputs = batch(packed.spec)
    together = loss_of(packed, inputs)
    sums, labels = 0.0, 0
    start = 0
    for length in packed.spec.lengths[0]:
        alone = step_of(training(seq_len=length))
        part = {name: tensor[:, start : start + length] for name, tensor in inputs.items()}
        counted = int((part["labels"] != IGNORED).sum())
        assert part["position_ids"].tolist() == [list(range(length))]
        sums, labels = sums + loss_of(alone, part) * counted, labels + counted
        start += length
    assert labels == packed.spec.labels_per_micro_batch
    assert together == pytest.approx(sums / labels, abs=1e-5)


def loss_of(step: TrainingStep, inputs: dict[str, torch.Tensor]) -> float:
    with step.running():
        loss = step.differentiate(inputs, unheard)
    step.update.clear_gradients()
    return float(loss)


def test_padding_is_neither_learned_from_nor_counted_as_work() -> None:
    step = step_of(training(packing="padded", batch=3))
    inputs = batch(step.spec)
    assert step.spec.lengths == ((16,), (12,), (8,))
    assert int((inputs["labels"] != IGNORED).sum()) == step.spec.labels_per_micro_batch == 15 + 11 + 7
    scribbled = {**inputs, "input_ids": inputs["input_ids"].clone()}
    scribbled["input_ids"][1, 12:] = 99
    scribbled["input_ids"][2, 8:] = 77
    assert loss_of(step, scribbled) == loss_of(step, inputs)
    spec = WORKLOAD.spec(training(packing="padded", batch=3))
    assert WORKLOAD.cost(spec, WORKLOAD.passes[0]).tokens == 16 + 12 + 8
    whole = WORKLOAD.cost(WORKLOAD.spec(training(batch=3)), WORKLOAD.passes[0])
    padded = WORKLOAD.cost(spec, WORKLOAD.passes[0])
    assert padded.flops is not None
    assert whole.flops is not None
    assert padded.flops < whole.flops * 36 / 48


@pytest.mark.parametrize("clip_norm", [0.25, 0.0])
def test_gradients_are_cut_to_the_norm_that_is_asked_for(clip_norm: float) -> None:
    step = step_of(training(clip_norm=clip_norm))
    inputs = batch(step.spec)
    uncut = norm(gradients(step, inputs).values())
    step(inputs)
    after = norm(weight.grad for weight in step.update.learned if weight.grad is not None)
    assert uncut > 0.5
    assert after == pytest.approx(clip_norm or uncut, rel=1e-4)


def norm(tensors: Any) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


def test_each_token_has_four_successors_and_the_walk_is_drawn_anew() -> None:
    spec = dataclasses.replace(WORKLOAD.spec(training(seq_len=2000)), batch=4)
    first, second = batch(spec, 1), batch(spec, 2)
    assert not first["input_ids"].equal(second["input_ids"])
    assert first["labels"][:, :-1].equal(first["input_ids"][:, 1:])
    after: dict[int, set[int]] = {}
    for inputs in (first, second):
        for token, following in zip(inputs["input_ids"].flatten().tolist(), inputs["labels"].flatten().tolist(), strict=True):
            after.setdefault(token, set()).add(following)
    assert len(after) == spec.shape.vocab_size
    assert max(map(len, after.values())) == SUCCESSORS
    other = batch(dataclasses.replace(spec, data_seed=1), 1)
    assert any(following not in after[token] for token, following in zip(*pairs(other), strict=True))


def pairs(inputs: dict[str, torch.Tensor]) -> tuple[list[int], list[int]]:
    return inputs["input_ids"].flatten().tolist(), inputs["labels"].flatten().tolist()


def test_a_small_model_learns_the_source() -> None:
    curve = losses(step_of(training(lr=3e-3, batch=8, seq_len=32)), 50)
    assert curve[0] == pytest.approx(math.log(256), abs=0.2)
    assert math.log(SUCCESSORS) < curve[-1] < curve[0] - 2.0


def test_a_window_shorter_than_the_text_hides_what_is_older() -> None:
    narrow = step_of(training(architecture="mistral", sliding_window=4))
    wide = step_of(training(architecture="mistral", sliding_window=16))
    whole = step_of(training(architecture="mistral"))
    inputs = batch(narrow.spec)
    assert loss_of(wide, inputs) == loss_of(whole, inputs)
    assert loss_of(narrow, inputs) != loss_of(whole, inputs)
