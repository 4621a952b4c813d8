"""From which share on a change counts in the history of a series: as in comparisons and nights, which must not find what it denies."""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.changepoints import SMALLEST_STEP
from bench.judge.screen import FLOOR
from bench.judge.thresholds import EXACT_RESOLUTION, RULES, Manner, absolute_floor
from bench.judge.verdict import Series
from bench.stats import median


def step_floor(series: Series, values: Sequence[float], repeats: Sequence[bool]) -> float:
    """The smallest change of level that is a step, as a share.

    Args:
        values: of the points of the series, above zero.
        repeats: of each whether its processes had the very same number. Where most do there is no noise that an amount could be for.
    """
    return _floor(series, values, noisy=SMALLEST_STEP, exact=2 * sum(repeats) > len(repeats))


def screen_floor(series: Series, values: Sequence[float], repeats: Sequence[bool]) -> float:
    """The same for the newest point: it has to repeat as well, as either side of a comparison."""
    return _floor(series, values, noisy=FLOOR, exact=repeats[-1] and 2 * sum(repeats) > len(repeats))


def _floor(series: Series, values: Sequence[float], *, noisy: float, exact: bool) -> float:
    rule = RULES[series.metric]
    amount = absolute_floor(series.metric, series.case.workload)
    if exact and series.metric.endswith("_bytes"):
        amount = min(amount, EXACT_RESOLUTION)
    return max(noisy if rule.manner is Manner.NOISY else rule.apart_floor, amount / median(values))
