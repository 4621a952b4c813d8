"""Pure arithmetic on lists of numbers. No numpy: every room may use it."""

from __future__ import annotations

import math
from collections.abc import Sequence

MAD_TO_SD = 1.4826
"""Of normal numbers the standard deviation is so many median absolute deviations."""


def quantile(values: Sequence[float], q: float) -> float:
    """Quantile `q` in [0, 1] with linear interpolation (Hyndman and Fan's type 7, as numpy's default)."""
    if not values:
        raise ValueError("quantile of no values")
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"q must lie in [0, 1], not {q}")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = math.ceil(position)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle values."""
    return quantile(values, 0.5)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; raises ValueError on no values."""
    if not values:
        raise ValueError("mean of no values")
    return math.fsum(values) / len(values)


def stdev(values: Sequence[float]) -> float:
    """Sample standard deviation (n - 1); raises ValueError below two values."""
    if len(values) < 2:
        raise ValueError("standard deviation needs two values")
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def relative_spread(values: Sequence[float]) -> float | None:
    """Standard deviation divided by the mean, or None where that means nothing (n < 2, or mean 0)."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return stdev(values) / abs(centre) if centre != 0 else None


def iqr(values: Sequence[float]) -> float:
    """Interquartile range."""
    return quantile(values, 0.75) - quantile(values, 0.25)


def power_law_exponent(x: Sequence[float], y: Sequence[float]) -> tuple[float, float] | None:
    """Least-squares slope of log y over log x and its standard error, or None with fewer than three distinct x.

    The exponent `e` of y ~ x^e. The standard error is the usual one of a regression slope, with n - 2 degrees of freedom.
    """
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    if len({a for a, _ in points}) < 3:
        return None
    centre_x = mean([a for a, _ in points])
    centre_y = mean([b for _, b in points])
    sxx = math.fsum((a - centre_x) ** 2 for a, _ in points)
    slope = math.fsum((a - centre_x) * (b - centre_y) for a, b in points) / sxx
    residual = math.fsum((b - centre_y - slope * (a - centre_x)) ** 2 for a, b in points)
    return slope, math.sqrt(residual / (len(points) - 2) / sxx)
