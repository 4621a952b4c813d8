"""The tolerance, and which errors it sees."""

from __future__ import annotations

import math

import pytest
import torch

from bench.worker.agreement import NOT_COMPARABLE, compare, relative_error, ulp


def test_an_ulp_is_the_spacing_of_the_dtype_at_a_value() -> None:
    assert ulp(1.0, "fp32") == 2.0**-23
    assert ulp(1.999, "fp32") == 2.0**-23
    assert ulp(2.0, "bf16") == 2.0**-6
    assert ulp(1.0, "tf32") == 2.0**-10
    assert ulp(0.0, "fp16") == 0.0


def tensors(
    error: float = 0.0, plain_error: float = 0.0, flipped_error: float = 0.0, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, ...]:
    exact = torch.ones(8, dtype=torch.float64)
    got, plain, flipped = (exact.to(dtype) for _ in range(3))
    got[3] += error
    plain[5] += plain_error
    flipped[5] += flipped_error
    return got, plain, flipped, exact


STEP = 2.0**-23
GRANTED = 8 + 32
"""In fp32 at values of 1: 8 ulp of the rms, 32 eps of the accumulator times the largest value."""


def test_eight_ulp_and_the_accumulators_rounding_are_granted() -> None:
    assert compare("out", "small", "fp32", *tensors(GRANTED * STEP)).passed
    assert not compare("out", "small", "fp32", *tensors((GRANTED + 1) * STEP)).passed


@pytest.mark.parametrize(("plain", "flipped"), [(4, 0), (0, 4), (4, 3)])
def test_twice_the_larger_of_both_plain_errors_is_granted(plain: int, flipped: int) -> None:
    assert compare("out", "small", "fp32", *tensors((GRANTED + 8) * STEP, plain * STEP, flipped * STEP)).passed
    assert not compare("out", "small", "fp32", *tensors((GRANTED + 9) * STEP, plain * STEP, flipped * STEP)).passed


def test_the_accumulators_rounding_is_nothing_in_bf16() -> None:
    assert compare("out", "small", "bf16", *tensors(8 * 2.0**-7, dtype=torch.bfloat16)).passed
    assert not compare("out", "small", "bf16", *tensors(9 * 2.0**-7, dtype=torch.bfloat16)).passed


def test_fp32_that_is_secretly_computed_in_tf32_is_wrong() -> None:
    assert not compare("out", "small", "fp32", *tensors(2.0**-11)).passed


@pytest.mark.parametrize(("error", "passed"), [(0.0999, True), (0.1001, False)])
def test_a_declared_tolerance_is_a_relative_root_mean_square_and_replaces_the_rule_of_rounding(error: float, passed: bool) -> None:
    exact = torch.tensor([3.0, -4.0], dtype=torch.float64)
    plain = exact.float()
    check = compare("out", "measured", "fp32", plain * (1 + error), plain, plain, exact, tolerance=0.1)
    assert check.passed is passed
    assert check.error == pytest.approx(error, rel=1e-5)
    assert (check.limit, check.plain_error) == (0.1, 0.0)
    assert "tolerance that the implementation declares" in str(check.detail)


def test_a_relative_error_is_absolute_where_nothing_is_expected_and_none_where_it_is_not_finite() -> None:
    zero = torch.zeros(4, dtype=torch.float64)
    assert relative_error(torch.full((4,), 0.5), zero) == 0.5
    assert relative_error(torch.full((4,), math.nan), zero) is None


def test_the_three_numbers_are_kept_whether_it_passed_or_not() -> None:
    check = compare("grad_q", "measured", "fp32", *tensors(0.5, 0.25))
    assert (check.error, check.plain_error, check.limit) == (0.5, 0.25, pytest.approx(0.5 + GRANTED * STEP))
    assert check.passed
    check = compare("grad_q", "measured", "fp32", *tensors(0.75, 0.25))
    assert (check.error, check.plain_error, check.passed) == (0.75, 0.25, False)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_wrong(bad: float) -> None:
    got, plain, flipped, exact = tensors()
    got[0] = bad
    check = compare("out", "small", "fp32", got, plain, flipped, exact)
    assert (check.passed, check.error, check.detail) == (False, None, "not finite")


def test_a_missing_gradient_another_shape_and_another_dtype_are_wrong() -> None:
    got, plain, flipped, exact = tensors()
    assert compare("grad_k", "small", "fp32", None, plain, flipped, exact).detail == "the subject gave none"
    assert compare("out", "small", "fp32", got[:4], plain, flipped, exact).detail == "shape (4,) instead of (8,)"
    assert (
        compare("out", "small", "fp32", got.bfloat16(), plain, flipped, exact).detail == "torch.bfloat16 instead of torch.float32"
    )


@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_where_the_reference_is_not_finite_nothing_can_be_compared_and_no_limit_is_kept(tolerance: float | None) -> None:
    got, plain, flipped, exact = tensors()
    exact[2] = math.inf
    found = compare("out", "measured", "fp32", got, plain, flipped, exact, tolerance)
    assert (found.passed, found.error) == (False, None)
    if tolerance is None:
        assert (found.limit, found.detail) == (None, NOT_COMPARABLE)
