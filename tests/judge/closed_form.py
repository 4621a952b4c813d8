"""Student's distribution for whole degrees of freedom, by its closed form: what the general one is held against."""

from __future__ import annotations

import math


def student_t_cdf(t: float, degrees: int) -> float:
    """P(T <= t) of Student's distribution with a whole number of degrees of freedom.

    The closed form: Abramowitz and Stegun, Handbook of Mathematical Functions (1972), 26.7.3 and 26.7.4.
    """
    if degrees < 1:
        raise ValueError("Student's distribution needs one degree of freedom")
    angle = math.atan2(t, math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(degrees // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    within = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return (1 + within) / 2


def student_t_quantile(p: float, degrees: int) -> float:
    """The t with P(T <= t) = p, for p in (0.5, 1), by bisection to twelve digits."""
    if not 0.5 < p < 1.0:
        raise ValueError(f"p must lie in (0.5, 1), not {p}")
    low, high = 0.0, 1.0
    while student_t_cdf(high, degrees) < p:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_cdf(middle, degrees) < p else (low, middle)
    return (low + high) / 2
