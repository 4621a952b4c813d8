"""Estimates from few processes: the ratio of two sides with its interval, effect size, power, and p-values over many rows.

A number here is the median of one process. Iterations of one process share its allocator, clocks and addresses and are no evidence of
their own. Logarithms are compared, so that a ratio and its inverse are treated alike.

A *block* holds the processes of both sides on one physical GPU (on a CPU there is one block). Two GPUs of a model differ by more than two
processes on one, so sides are compared within a block and the differences combined, each block by what it can say (Welch's test where
there is one block; Welch, Biometrika 34, 1947, with Satterthwaite's degrees of freedom).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.student import critical, two_sided_p
from bench.judge.verdict import Interval
from bench.stats import mean, stdev

POWER_CONFIDENCE = 0.60
"""Two-sided: its t is exceeded in one of five cases, so a change that far beyond the threshold is seen in four of five."""

Block = tuple[Sequence[float], Sequence[float]]
"""Process medians of the first and the second side, all above zero, two at least on each."""


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Difference of mean logarithms, second less first, with its standard error; degrees are None where nothing varies at all."""

    estimate: float
    error: float
    degrees: float | None

    @property
    def p(self) -> float:
        """Two-sided, that the sides are equal."""
        if self.degrees is None:
            return 1.0 if self.estimate == 0 else 0.0
        return two_sided_p(self.estimate / self.error, self.degrees)

    def half_width(self, confidence: float) -> float:
        """Of the interval, in logarithms."""
        return 0.0 if self.degrees is None else critical(confidence, self.degrees) * self.error

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Of the interval, in logarithms."""
        half = self.half_width(confidence)
        return self.estimate - half, self.estimate + half

    def interval(self, confidence: float) -> Interval:
        """Of the ratio."""
        low, high = self.bounds(confidence)
        return Interval(_exp(low), _exp(high), confidence)

    def detectable(self, confidence: float, band: float) -> float:
        """The log ratio whose interval would lie outside ±`band` in four of five such comparisons."""
        if self.degrees is None:
            return band
        return band + self.half_width(confidence) + critical(POWER_CONFIDENCE, self.degrees) * self.error


def _exp(x: float) -> float:
    """The largest float where it would overflow: an interval from two wild processes may be absurdly wide, and stays a number."""
    return math.exp(min(x, 700.0))


def log_ratio(blocks: Sequence[Block]) -> LogRatio:
    """The combined estimate. Raises ValueError without a block, or where a side of one has fewer than two processes."""
    if not blocks:
        raise ValueError("a ratio needs a block of processes")
    parts = []
    for first, second in blocks:
        a, b = [math.log(x) for x in first], [math.log(x) for x in second]
        weight = len(a) * len(b) / (len(a) + len(b))
        parts.append((weight, mean(b) - mean(a), stdev(a) ** 2 / len(a), len(a) - 1, stdev(b) ** 2 / len(b), len(b) - 1))
    total = math.fsum(weight for weight, *_ in parts)
    shares = [(weight / total, difference, *rest) for weight, difference, *rest in parts]
    estimate = math.fsum(share * difference for share, difference, *_ in shares)
    terms = [(share**2 * v, degrees) for share, _, va, na, vb, nb in shares for v, degrees in ((va, na), (vb, nb))]
    variance = math.fsum(v for v, _ in terms)
    # Squares of numbers that small are zero, so what varies by less than that does not vary.
    lower = math.fsum(v**2 / degrees for v, degrees in terms)
    if lower == 0.0:
        return LogRatio(estimate, 0.0, None)
    return LogRatio(estimate, math.sqrt(variance), variance**2 / lower)


def cliffs_delta(first: Sequence[float], second: Sequence[float]) -> float:
    """How often a process of the second side is above one of the first, less how often below: -1 to 1."""
    ordered = sorted(first)
    above = sum(bisect_left(ordered, x) for x in second)
    below = sum(len(ordered) - bisect_right(ordered, x) for x in second)
    return (above - below) / (len(first) * len(second))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """For each p the smallest rate of false discoveries at which it would count (Benjamini and Hochberg, JRSS B 57, 1995)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place], reverse=True)
    found = [0.0] * len(p_values)
    least = 1.0
    for position, place in enumerate(order):
        least = min(least, p_values[place] * len(p_values) / (len(p_values) - position))
        found[place] = least
    return found


def pooled_sd(groups: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """Standard deviation of logarithms within groups (runs), and how many numbers it rests on; None without two in a group."""
    squares, degrees, count = 0.0, 0, 0
    for group in groups:
        if len(group) >= 2:
            logs = [math.log(x) for x in group]
            squares += stdev(logs) ** 2 * (len(logs) - 1)
            degrees += len(logs) - 1
            count += len(logs)
    return (math.sqrt(squares / degrees), count) if degrees else None
