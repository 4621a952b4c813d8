"""Gradients come as the tapes of the layers make them, and a bucket is emptied before the one that does not fit."""

from __future__ import annotations

import itertools

import pytest

from bench.plan import TrainSpec, model_named
from bench.plan.buckets import EMBEDDING, END, coming, emptied
from bench.plan.layer import decoder_layer, dims_of
from bench.plan.weights import weights

LLAMA = model_named("llama-3-8b")


@pytest.mark.parametrize(("adaptation", "gradient_bytes"), [("full", 2), ("lora", 4)])
@pytest.mark.parametrize("name", ["llama-3.2-1b", "llama-3-8b", "qwen3-8b"])
def test_a_layers_gradients_come_in_the_order_of_its_tape(name: str, adaptation: str, gradient_bytes: int) -> None:
    model, train = model_named(name), TrainSpec(seq_len=64, adaptation=adaptation)
    tape = decoder_layer(model, train, dims_of(model, train), cuda=True)
    made = [alive.size // gradient_bytes for alive in tape.backward(in_place=True).left]
    assert [gradient.elements for gradient in coming(model, weights(model, train)) if gradient.place == 1] == made


def test_an_untied_last_layer_comes_first_and_a_tied_one_with_the_embedding() -> None:
    places = [gradient.place for gradient in coming(LLAMA, weights(LLAMA, TrainSpec(seq_len=1)))]
    assert (places[0], places[1], places[-1]) == (LLAMA.layers + 1, LLAMA.layers, EMBEDDING)
    tied = model_named("llama-3.2-1b")
    gradients = coming(tied, weights(tied, TrainSpec(seq_len=1)))
    assert [gradient.place for gradient in gradients if gradient.elements == tied.vocab_size * tied.hidden_size] == [EMBEDDING]


def test_every_gradient_is_sent_once_and_a_large_one_alone() -> None:
    gradients, bucket = coming(LLAMA, weights(LLAMA, TrainSpec(seq_len=1))), 500_000_000
    sent = list(emptied(gradients, bucket))
    assert [gradient for step in sent for gradient in step.gradients] == gradients
    assert [len(step.gradients) for step in sent if step.elements > bucket] == [1, 1]  # the last layer and the embedding
    assert sent[-1].place == END
    for step, after in itertools.pairwise(sent):
        assert step.elements + after.gradients[0].elements > bucket
