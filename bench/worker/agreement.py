"""How far a tensor may be from the reference: beside float64, and beside what plain PyTorch achieves in the same dtype.

The rule is FlashAttention's own test rule, made absolute: with e the largest absolute difference to the reference in float64,

    e(subject) <= 2 * e(plain PyTorch in the case's dtype) + 8 ulp(rms of the reference) + 32 eps(accumulator) * max |reference|

The first term grants what the dtype costs anybody; the second keeps a lucky, exact plain result from failing everybody else.

"What plain PyTorch achieves" is the larger of two errors: with the inputs as given, and with the last bit of each input flipped at
random. The largest of many rounding errors is itself a random number, and one draw of it is a poor yardstick (torch's own flash
kernel in bf16 failed now and then by the first alone). Flipped last bits show how much the problem itself amplifies a rounding.

An implementation that computes something else on purpose (a quantized layer) declares a tolerance instead: its relative root mean
square error must stay below, in outputs and gradients alike. That error is then a finding, beside time and memory.

The third term is for fp32, where the first two are tiny. A right kernel may form other intermediates than plain PyTorch, such as the
row sums of dO * O in a flash backward, and differ in the last bits of *them*: the gradient of q of torch's flash kernel on a CPU is
up to 3.6 times as far off as plain PyTorch's. The accumulator is fp32, or fp64 for fp64, so for bf16 and fp16 the term is nothing,
and in fp32 it is a hundred times below what a kernel shows that multiplies in tf32 without saying so.
"""

from __future__ import annotations

import math

import torch

from bench.declare import torch_dtype
from bench.records import Check

PLAIN_FACTOR = 2.0
ULPS = 8.0
ACCUMULATOR_EPS = 32.0
TF32_EPS = 2.0**-10
NOT_COMPARABLE = "the reference itself is not finite: something wrote over the inputs or the outer gradients"


def ulp(value: float, dtype: str) -> float:
    """Spacing of numbers of a compute dtype at `value`; 0 at 0."""
    if value == 0.0 or not math.isfinite(value):
        return 0.0
    eps = TF32_EPS if dtype == "tf32" else torch.finfo(torch_dtype(dtype)).eps
    return float(eps * 2.0 ** math.floor(math.log2(abs(value))))


def _accumulator_eps(dtype: str) -> float:
    return float(torch.finfo(torch.float64 if dtype == "fp64" else torch.float32).eps)


def compare(
    name: str,
    at: str,
    dtype: str,
    got: torch.Tensor | None,
    plain: torch.Tensor,
    flipped: torch.Tensor,
    exact: torch.Tensor,
    tolerance: float | None = None,
) -> Check:
    """One tensor of the subject against float64, beside the same of plain PyTorch: as given, and with last bits flipped."""
    difference = _largest_difference if tolerance is None else relative_error
    plain_errors = difference(plain, exact), difference(flipped, exact)
    plain_error = None if None in plain_errors else max(error for error in plain_errors if error is not None)
    limit = tolerance if tolerance is not None else _rounding_limit(plain_error, dtype, exact)
    fault = None
    if got is None:
        fault = "the subject gave none"
    elif got.shape != plain.shape:
        fault = f"shape {tuple(got.shape)} instead of {tuple(plain.shape)}"
    elif got.dtype != plain.dtype:
        fault = f"{got.dtype} instead of {plain.dtype}"
    if not math.isfinite(limit):
        return Check(name, at, None, plain_error, None, False, NOT_COMPARABLE)
    if fault or got is None:
        return Check(name, at, None, plain_error, limit, False, fault)
    error = difference(got, exact)
    if error is None:
        return Check(name, at, None, plain_error, limit, False, "not finite")
    detail = None if tolerance is None else "relative root mean square, against the tolerance that the implementation declares"
    if plain_error is None:
        detail = "plain PyTorch is not finite here"
    return Check(name, at, error, plain_error, limit, error <= limit, detail)


def _rounding_limit(plain_error: float | None, dtype: str, exact: torch.Tensor) -> float:
    """The rule at the top of this file."""
    rms = float(exact.square().mean().sqrt()) if exact.numel() else 0.0
    largest = float(exact.abs().max()) if exact.numel() else 0.0
    return PLAIN_FACTOR * (plain_error or 0.0) + ULPS * ulp(rms, dtype) + ACCUMULATOR_EPS * _accumulator_eps(dtype) * largest


def relative_error(tensor: torch.Tensor, exact: torch.Tensor) -> float | None:
    """Root mean square of the difference, relative to that of `exact` (absolute where that is 0); None where it is not finite."""
    if not exact.numel():
        return 0.0
    size = float(exact.square().mean().sqrt())
    error = float((tensor.detach().double() - exact).square().mean().sqrt()) / (size or 1.0)
    return error if math.isfinite(error) else None


def _largest_difference(tensor: torch.Tensor, exact: torch.Tensor) -> float | None:
    """Largest absolute difference; None where it is not finite."""
    if not exact.numel():
        return 0.0
    difference = float((tensor.detach().double() - exact).abs().max())
    return difference if math.isfinite(difference) else None
