"""Student's distribution with any number of degrees of freedom, exact in its tails, where Welch's test lives.

Through the regularised incomplete beta function, by Lentz's evaluation of its continued fraction (Abramowitz and Stegun, Handbook of
Mathematical Functions, 1972, 26.5.8 and 26.7.1). With whole degrees it agrees with the closed form, by which it is tested.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_ENOUGH = 1e-15
_MOST_STEPS = 10_000
_DEGREES_GRID = 20
"""Quantiles are asked for at degrees rounded down to 1/20, so that thousands of rows share a few hundred of them."""


def two_sided_p(t: float, degrees: float) -> float:
    """P(|T| >= |t|). Raises ValueError for degrees of freedom that are not positive."""
    if not degrees > 0:
        raise ValueError(f"Student's distribution needs degrees of freedom above zero, not {degrees}")
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) if t else 1.0


def critical(confidence: float, degrees: float) -> float:
    """The t with P(|T| <= t) = `confidence`. Degrees are rounded down to 1/20, which only makes it larger; below 1/20 ValueError."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies in (0, 1), not {confidence}")
    return _critical(confidence, math.floor(min(degrees, 1e6) * _DEGREES_GRID) / _DEGREES_GRID)


@lru_cache(maxsize=100_000)
def _critical(confidence: float, degrees: float) -> float:
    wanted = 1.0 - confidence
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > wanted:
        low, high = high, high * 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees) > wanted else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - math.log(a) - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b))
    return front * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """1 / (1 + d1 / (1 + d2 / ...)), term by term until it stands still."""
    numerator, denominator = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    denominator = 1.0 / (denominator if abs(denominator) > _TINY else _TINY)
    value = denominator
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1.0 + term * denominator
            numerator = 1.0 + term / numerator
            denominator = 1.0 / (denominator if abs(denominator) > _TINY else _TINY)
            numerator = numerator if abs(numerator) > _TINY else _TINY
            change = denominator * numerator
            value *= change
        if abs(change - 1.0) < _ENOUGH:
            return value
    raise ArithmeticError(f"the incomplete beta function did not settle at a={a}, b={b}, x={x}")
