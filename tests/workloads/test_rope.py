"""The semantics of rotary position embedding."""

from __future__ import annotations

import math

import pytest
import torch

from bench.workloads.rope import WORKLOAD, RopeSpec, tables

SPEC = RopeSpec(batch=2, heads=4, kv_heads=2, head_dim=8, seq_len=7, theta=10_000.0, dtype="fp32")


def inputs(spec: RopeSpec = SPEC) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(2))


def test_reference_and_tables_are_llamas() -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=32, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 10_000.0})
    drawn = inputs()
    cos, sin = LlamaRotaryEmbedding(config)(drawn["q"], torch.arange(7)[None])
    for ours, theirs in zip(tables(SPEC, "cpu"), (cos, sin), strict=True):
        torch.testing.assert_close(ours, theirs)
    got = WORKLOAD.reference(SPEC, drawn, {})
    q, k = apply_rotary_pos_emb(drawn["q"], drawn["k"], cos, sin)
    torch.testing.assert_close(got["q_out"], q)
    torch.testing.assert_close(got["k_out"], k)


def test_it_turns_pairs_by_an_angle_that_grows_with_the_position() -> None:
    drawn = inputs()
    q, turned = drawn["q"], WORKLOAD.reference(SPEC, drawn, {})["q_out"]
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))
    before = torch.complex(q[..., 1], q[..., 5])  # the pair i = 1
    after = torch.complex(turned[..., 1], turned[..., 5])
    expected = torch.polar(torch.ones(7), torch.arange(7) * 10_000.0 ** (-2 / 8))
    torch.testing.assert_close(after / before, expected.expand(2, 4, 7))


def test_tensors_are_views_as_projections_leave_them() -> None:
    assert {name: tensor.transpose(1, 2).is_contiguous() for name, tensor in inputs().items()} == {"q": True, "k": True}


def test_the_slice_keeps_the_positions_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.workloads.rope.SLICE_ELEMENTS", 2 * 3 * 6 * 8)
    sliced = WORKLOAD.slice(SPEC)
    assert sliced is not None
    part, pick = sliced
    assert (part.batch, part.seq_len, part.first_position, part.position_step) == (2, 3, 0, 3)
    drawn = inputs()
    whole = WORKLOAD.reference(SPEC, drawn, {})
    picked = {name: pick(name, tensor) for name, tensor in drawn.items()}
    for name, tensor in WORKLOAD.reference(part, picked, {}).items():  # type: ignore[arg-type]
        torch.testing.assert_close(tensor, pick(name, whole[name]))


def test_costs_count_reads_writes_and_half_of_the_tables() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_) for pass_ in WORKLOAD.passes)
    elements = 2 * 7 * 6 * 8
    assert (forward.flops, forward.bytes, forward.tokens) == (3 * elements, (2 * elements + 7 * 8) * 4, 14)
    assert backward == forward
    assert (both.flops, both.bytes) == (6 * elements, 2 * (2 * elements + 7 * 8) * 4)


def test_an_odd_head_cannot_be_cut_into_halves() -> None:
    with pytest.raises(ValueError, match="even"):
        RopeSpec(batch=1, heads=1, kv_heads=1, head_dim=7, seq_len=1, theta=math.e, dtype="fp32")
