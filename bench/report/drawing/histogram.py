"""The samples of a case as counts in bins, for the script that draws them when a row is opened."""

from __future__ import annotations

from bench import stats
from bench.records import Status
from bench.report.numbers.samples import taken
from bench.report.numbers.summary import TIME, CaseSummary

BINS = 24
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
FEWEST_SAMPLES = 10
EDGE = 0.01
FAR = 3.0
"""The first and the last bin also hold what lies beyond these quantiles, or so many times the middle half's width outside the middle
half: a few late samples would press all others into one bin."""


def histogram(case: CaseSummary) -> str | None:
    """`low high 09z…`: seconds, then a digit to the base 36 for each bin, relative to the fullest; None with too few, or without a time.

    A bin that holds anything is 1 at least.
    """
    if not case.usable or case.time_withheld:
        return None
    samples = sorted(
        sample
        for result in case.counted
        if result.status is Status.OK and (measured := result.measurement(TIME)) is not None and taken(measured).there
        for sample in measured.samples
    )
    if len(samples) < FEWEST_SAMPLES:
        return None
    first, third = stats.quantile(samples, 0.25), stats.quantile(samples, 0.75)
    reach = FAR * (third - first)
    low, high = max(stats.quantile(samples, EDGE), first - reach), min(stats.quantile(samples, 1 - EDGE), third + reach)
    if not low < high:
        return None
    counts = [0] * BINS
    for sample in samples:
        counts[min(BINS - 1, max(0, int((sample - low) / (high - low) * BINS)))] += 1
    most = max(counts)
    return f"{low:.4g} {high:.4g} {''.join(DIGITS[-(-n * (len(DIGITS) - 1) // most)] for n in counts)}"
