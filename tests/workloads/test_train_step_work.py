"""Work of a training step: formulas against torch's own count, published parameter counts, what checkpointing and adapters change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.catalogue import load_catalogue
from bench.records import Case, Pass
from bench.workloads.checkpointing import recomputed_share
from bench.workloads.train_step import DIMS, WORKLOAD
from bench.workloads.train_step._architectures import windows
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._flops import again_flops, attention_flops, block_weights, down_flops, forward_flops, model_flops
from bench.workloads.train_step._model import make_model
from bench.workloads.train_step._spec import DecoderShape
from tests.catalogue.test_shapes import PUBLISHED
from tests.workloads.training import step_of, training


def shape_of(name: str) -> DecoderShape:
    dims = load_catalogue().models[name].dims()
    return DecoderShape(**{dim: dims[dim] for dim in DIMS})  # type: ignore[arg-type]


@pytest.mark.parametrize("accumulation", [1, 2])
def test_model_flops_are_what_torch_counts_but_for_hidden_scores_and_softmax(accumulation: int) -> None:
    case = training(accumulation=accumulation)
    step, spec = step_of(case), WORKLOAD.spec(case)
    inputs = make_batch(spec, torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        step(inputs)
    # torch's eager attention computes every score, the hidden ones too, forward and twice backward; the rotation's tables are a product.
    of_scores = 3 * 4 * spec.shape.layers * spec.shape.heads * spec.shape.head_dim * spec.batch * spec.seq_len**2 * accumulation
    hidden = of_scores - 3 * attention_flops(spec, windows(spec.shape))
    tables = 2 * (spec.shape.head_dim // 2) * spec.seq_len * accumulation
    assert counter.get_total_flops() == model_flops(spec, windows(spec.shape)) + hidden + tables


def test_frozen_weights_have_no_gradient_to_compute() -> None:
    spec = WORKLOAD.spec(training())
    all_learn, frozen = (model_flops(spec, windows(spec.shape), frozen=frozen) for frozen in (False, True))
    layers, head = forward_flops(spec, windows(spec.shape))
    assert all_learn == 3 * (layers + head)
    assert all_learn - frozen == 2 * block_weights(spec.shape) * spec.real_tokens + head
    lora = WORKLOAD.spec(training(fills={"adaptation": "lora"}))
    assert WORKLOAD.cost(lora, Pass.STEP).flops == frozen


def counted(case: Case) -> int:
    """FLOPs of one step, as torch's dispatcher sees them."""
    step = step_of(case)
    with FlopCounterMode(display=False) as counter:
        step(make_batch(step.spec, torch.Generator().manual_seed(0)))
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("checkpointing", "precision", "fills", "shape"),
    [
        ("selective", "fp32", {}, {}),
        ("every_second", "fp32", {}, {}),
        ("full", "bf16_amp", {}, {}),
        ("full", "bf16_pure", {"linear": "float8_training_tensorwise"}, {}),
        ("full", "fp32", {"qat": "int8_dynamic"}, {}),
        ("full", "fp32", {}, {"architecture": "gemma3_text", "sliding_window": 8}),
    ],
    ids=["selective", "every second", "amp", "float8", "qat", "gemma"],
)
def test_what_checkpointing_computes_again_is_what_torch_counts_but_for_hidden_scores(
    checkpointing: str, precision: str, fills: dict[str, str], shape: dict[str, Any]
) -> None:
    if {"linear", "qat"} & set(fills):
        pytest.importorskip("torchao")
    case = training(precision, fills={**fills, "checkpointing": checkpointing}, layers=3, **shape)
    spec, all_kept = WORKLOAD.spec(case), training(precision, fills=fills, layers=3, **shape)
    share = recomputed_share(spec)
    assert share is not None
    of_scores = 4 * spec.shape.layers * spec.shape.heads * spec.shape.head_dim * spec.batch * spec.seq_len**2
    hidden = of_scores - attention_flops(spec, windows(spec.shape))
    layers = {"selective": 0.0, "every_second": 2 / 3, "full": 1.0}[checkpointing]
    again = again_flops(spec, windows(spec.shape), share) + layers * hidden
    assert counted(case) - counted(all_kept) == pytest.approx(again, abs=1)


def test_a_checkpoint_ends_before_a_layers_last_product_unless_that_is_part_of_something_larger() -> None:
    def share(**fills: str) -> float | None:
        return recomputed_share(WORKLOAD.spec(training(fills={"checkpointing": "full", **fills})))

    spec = WORKLOAD.spec(training())
    without = 1.0 - down_flops(spec) / forward_flops(spec, windows(spec.shape))[0]
    assert without < 0.8
    for fills in ({}, {"compile": "layer"}, {"compile": "model", "adaptation": "lora"}, {"swiglu": "liger"}, {"sharding": "fsdp2"}):
        assert share(**fills) == pytest.approx(without), fills
    hooked = {"compile": "layer", "sharding": "fsdp2"}
    for fills in ({"adaptation": "lora"}, {"linear": "nf4_bnb"}, {"swiglu": "compiled"}, {"sharding": "zero3"}, hooked):
        assert share(**fills) == 1.0, fills


@pytest.mark.parametrize("fills", [{"checkpointing": "my_own"}, {"checkpointing": "selective", "attention": "flash_attn4"}])
def test_what_checkpointing_computes_again_is_not_guessed(fills: dict[str, str]) -> None:
    assert recomputed_share(WORKLOAD.spec(training(fills=fills, layers=3))) is None


def test_six_times_parameters_and_tokens_is_most_of_an_eight_billion_step() -> None:
    shape = shape_of("llama-3-8b")
    assert block_weights(shape) == 6_979_321_856
    spec = dataclasses.replace(WORKLOAD.spec(training()), shape=shape, batch=1, seq_len=8192)
    tokens, parameters = 8192, block_weights(shape) + shape.vocab_size * shape.hidden_size
    attention = 3 * 4 * shape.layers * shape.heads * shape.head_dim * (8192 * 8193 // 2)
    assert model_flops(spec, windows(shape)) == 6 * parameters * tokens + attention


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"gemma-2-9b"}))
def test_the_model_that_is_made_has_as_many_parameters_as_the_published_one(name: str) -> None:
    spec = dataclasses.replace(WORKLOAD.spec(training()), shape=shape_of(name))
    model = make_model(spec, 0, torch.device("meta"), "bf16", "eager")
    assert sum(weight.numel() for weight in model.parameters()) == PUBLISHED[name]
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == spec.shape.tied_embeddings


def test_windows_are_those_of_the_family() -> None:
    assert set(windows(shape_of("llama-3-8b"))) == set(windows(shape_of("mistral-7b"))) == {None}
    assert set(windows(shape_of("phi-3-mini"))) == {2047}
    gemma = windows(shape_of("gemma-3-4b"))
    assert (len(gemma), gemma.count(None), gemma[5]) == (34, 5, None)
    spec = WORKLOAD.spec(training(architecture="phi3", sliding_window=4, seq_len=16, batch=1))
    pairs = sum(min(position + 1, 4) for position in range(16))
    assert attention_flops(spec, windows(spec.shape)) == 4 * 4 * 16 * pairs * spec.shape.layers
