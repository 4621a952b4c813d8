"""What attention in 16 bits keeps for its backward is the founding formula, to the byte."""

from __future__ import annotations

import math

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import AttentionSpec
from bench.records import Pass
from bench.worker.saved import saved_bytes
from bench.worker.step import Step
from bench.workloads.attention import WORKLOAD

HEADS, TOKENS, HEAD_DIM = 4, 64, 8


def kept(name: str, *, kv_heads: int = HEADS, dropout: float = 0.1) -> tuple[float, float]:
    """Bytes that one layer keeps, and those of them that are its inputs."""
    spec = AttentionSpec(1, HEADS, kv_heads, HEAD_DIM, TOKENS, TOKENS, "causal", dropout, 1 / math.sqrt(HEAD_DIM), "bf16")
    inputs = WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(1))
    for tensor in inputs.values():
        tensor.requires_grad_()
    bound = WORKLOAD.bind(spec, {"attention": load_catalogue().implementation("attention", name).builder(spec)}, {})
    whole, of_inputs = saved_bytes(Step(bound, inputs, {}, Pass.FORWARD_BACKWARD))
    return whole.samples[0], of_inputs.samples[0]


SCORES = HEADS * TOKENS * TOKENS
INPUT_BYTES = 2 * HEADS * TOKENS * HEAD_DIM


@pytest.mark.parametrize(("dropout", "bytes_a_score"), [(0.1, 5), (0.0, 2)])
def test_weights_a_mask_of_a_byte_and_what_it_leaves_are_kept(dropout: float, bytes_a_score: int) -> None:
    whole, of_inputs = kept("eager_16bit", dropout=dropout)
    assert of_inputs == 3 * INPUT_BYTES
    assert whole - of_inputs == bytes_a_score * SCORES


def test_keys_and_values_that_heads_share_are_kept_once_more_as_they_are_repeated() -> None:
    whole, of_inputs = kept("eager_16bit", kv_heads=2)
    assert of_inputs == INPUT_BYTES  # of q; k and v are kept as their copies
    assert whole - of_inputs == 5 * SCORES + 2 * INPUT_BYTES


def test_transformers_own_code_keeps_four_bytes_of_each_score_more_without_dropout() -> None:
    whole, of_inputs = kept("eager", dropout=0.0)
    assert whole - of_inputs == (2 + 4) * SCORES
