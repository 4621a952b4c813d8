"""The semantics of attention, told in numbers small enough to see."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from bench.declare import AttentionSpec, Bound
from bench.records import Pass
from bench.workloads.attention import WORKLOAD, weights
from tests.worker.trials import attention


def spec(**changes: object) -> AttentionSpec:
    made = AttentionSpec(2, 4, 2, 8, 6, 6, "causal", 0.0, 1 / math.sqrt(8), "fp32")
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def inputs_of(of: AttentionSpec) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(of, "cpu", torch.Generator().manual_seed(1))


def test_inputs_are_views_of_what_projections_leave_in_memory_and_never_zero() -> None:
    inputs = inputs_of(spec())
    assert {name: tuple(t.shape) for name, t in inputs.items()} == {"q": (2, 4, 6, 8), "k": (2, 2, 6, 8), "v": (2, 2, 6, 8)}
    assert all(tensor.transpose(1, 2).is_contiguous() for tensor in inputs.values())
    assert all(0.5 < float(tensor.std()) < 2.0 for tensor in inputs.values())
    assert torch.equal(inputs["q"], inputs_of(spec())["q"])


def test_a_query_head_reads_the_key_head_of_its_group() -> None:
    of = spec(seq_len=1, kv_len=1)
    inputs = inputs_of(of)
    out = WORKLOAD.reference(of, inputs, {})["out"]
    # With one key its weight is 1, so each head returns its group's value.
    for head in range(4):
        assert torch.equal(out[:, head], inputs["v"][:, head // 2])


def test_the_reference_is_torchs_attention() -> None:
    of = spec()
    inputs = {name: tensor.double() for name, tensor in inputs_of(of).items()}
    expected = torch.nn.functional.scaled_dot_product_attention(*inputs.values(), is_causal=True, enable_gqa=True)
    torch.testing.assert_close(WORKLOAD.reference(of, inputs, {})["out"], expected)


def test_the_reference_keeps_the_dtype_of_its_inputs() -> None:
    inputs = inputs_of(spec(dtype="bf16"))
    assert WORKLOAD.reference(spec(dtype="bf16"), inputs, {})["out"].dtype is torch.bfloat16


def test_flops_follow_the_formulas_of_the_flash_attention_papers() -> None:
    full = WORKLOAD.cost(spec(mask="full"), Pass.FORWARD)
    assert full.flops == 4 * 2 * 4 * 6 * 6 * 8
    assert WORKLOAD.cost(spec(mask="full"), Pass.BACKWARD).flops == full.flops * 5 // 2
    assert WORKLOAD.cost(spec(mask="full"), Pass.FORWARD_BACKWARD).flops == full.flops * 7 // 2
    causal = WORKLOAD.cost(spec(), Pass.FORWARD)
    assert causal.flops == 4 * 2 * 4 * (6 * 7 // 2) * 8
    assert causal.tokens == 12


def test_bytes_are_each_input_once_and_each_output_once() -> None:
    q, k = 2 * 4 * 6 * 8, 2 * 2 * 6 * 8
    assert WORKLOAD.cost(spec(), Pass.FORWARD).bytes == (2 * q + 2 * k) * 4
    # q, k, v, out, grad_out are read; grad_q, grad_k, grad_v are written.
    assert WORKLOAD.cost(spec(dtype="bf16"), Pass.BACKWARD).bytes == (4 * q + 4 * k) * 2


def test_heads_that_do_not_fit_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"heads \(4\) must be a multiple of kv_heads \(3\)"):
        WORKLOAD.spec(attention("eager", params={"kv_heads": 3}))


def test_the_small_problem_keeps_groups_and_dims_and_drops_nothing() -> None:
    small = WORKLOAD.small_spec(spec(batch=8, heads=32, kv_heads=8, head_dim=128, seq_len=4096, kv_len=4096, dropout=0.1))
    assert (small.batch, small.heads, small.kv_heads, small.head_dim, small.seq_len, small.dropout) == (2, 8, 2, 128, 160, 0.0)


def dropped(of: AttentionSpec, rate: float, scale: float, *, redraw: bool = True) -> Bound:
    """An attention that drops with its own rate and scale."""
    generator = torch.Generator()

    def forward(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if not redraw:
            generator.manual_seed(1)
        p = weights(of, inputs["q"], inputs["k"])
        kept = torch.rand(p.shape, generator=generator) >= rate
        return {"out": (p * kept * scale) @ inputs["v"].repeat_interleave(of.heads // of.kv_heads, 1)}

    return Bound(forward)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "scale", "redraw", "wrong"),
    [
        (0.2, 1.25, True, set()),
        (0.0, 1.25, True, {"dropout_rate", "dropout_redrawn"}),
        (0.3, 1.25, True, {"dropout_rate"}),
        (0.2, 1.0, True, {"dropout_scale"}),
        (0.2, 1.25, False, {"dropout_redrawn"}),
    ],
)
def test_dropout_is_known_by_its_rate_its_scale_and_its_randomness(
    rate: float, scale: float, redraw: bool, wrong: set[str]
) -> None:
    of = spec(dropout=0.2, head_dim=64, seq_len=64, kv_len=64, training=False)
    checks = WORKLOAD.property_checks(of, lambda part: dropped(part, rate, scale, redraw=redraw), "cpu", torch.Generator())
    assert {check.tensor for check in checks if not check.passed} == wrong
    assert len(checks) == 3


class DropsOthersBackward(torch.autograd.Function):
    """P dropped times V, whose backward drops other weights of P: the mistake of a kernel that draws anew instead of again."""

    @staticmethod
    def forward(ctx: Any, p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(p)
        return p @ v

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[None, torch.Tensor]:
        (p,) = ctx.saved_tensors
        return None, p.roll(1, dims=-2).transpose(-1, -2) @ outer[0]


@pytest.mark.parametrize(("fault", "wrong"), [("none", set()), ("other weights", {"dropout_grad_v"}), ("cut", {"dropout_grad_v"})])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_gradient_of_v_is_that_of_the_weights_that_the_forward_left(dtype: str, fault: str, wrong: set[str]) -> None:
    def bind(part: AttentionSpec) -> Bound:
        def forward(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            p = weights(part, inputs["q"], inputs["k"])
            p = torch.nn.functional.dropout(p, part.dropout)
            v = inputs["v"].repeat_interleave(part.heads // part.kv_heads, 1)
            out = DropsOthersBackward.apply(p, v) if fault == "other weights" else p @ v
            return {"out": out.detach() if fault == "cut" else out}

        return Bound(forward)

    of = spec(dropout=0.2, head_dim=64, seq_len=64, kv_len=64, dtype=dtype)
    checks = WORKLOAD.property_checks(of, bind, "cpu", torch.Generator())
    assert len(checks) == 4
    assert {check.tensor for check in checks if not check.passed} == wrong


def test_random_outputs_have_no_slice_to_compare() -> None:
    assert WORKLOAD.slice(spec(dropout=0.1)) is None
    assert WORKLOAD.property_checks(spec(), lambda part: pytest.fail("nothing to bind"), "cpu", torch.Generator()) == []
