"""Says how a value grows with a size: the exponent of a power law, with the interval that so few points allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.student import critical
from bench.stats import power_law_exponent

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Growth:
    """value ∝ size^exponent, ± `half_width` at 95 %."""

    exponent: float
    half_width: float
    sizes: int


def growth(sizes: Sequence[float], values: Sequence[float]) -> Growth | None:
    """The exponent fitted by least squares on logarithms, or None below three distinct sizes.

    The interval is Student's: t at n - 2 degrees of freedom times the standard error of the slope. With three sizes t is 12.7, so
    only what really is a power law gets a narrow one.
    """
    fit = power_law_exponent(sizes, values)
    if fit is None:
        return None
    used = sum(1 for size, value in zip(sizes, values, strict=True) if size > 0 and value > 0)
    slope, error = fit
    return Growth(slope, critical(CONFIDENCE, used - 2) * error, used)
