"""How many samples a measurement had and how they were spread, also where a median or some are left of them, with a note of how many."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench import stats
from bench.records import Measurement
from bench.store.thinning import samples_before

_QUANTILES = re.compile(r", 5 % ([\d.e+-]+), 95 % ([\d.e+-]+)$")


@dataclass(frozen=True, slots=True)
class Taken:
    """What was sampled. `low` and `high` are the 5th and 95th percentile; None where a note does not tell them."""

    count: int
    low: float | None
    high: float | None
    there: bool
    """Whether samples are there: all, or some at even ranks."""


def taken(measurement: Measurement) -> Taken:
    """Of the samples, or of the note in their place: `bench db gc` and `bench db publish` write one (`bench/store/thinning.py`), and so do
    importers."""
    count = samples_before(measurement.note)
    if count is None:
        samples = measurement.samples
        return Taken(len(samples), stats.quantile(samples, 0.05), stats.quantile(samples, 0.95), there=True)
    there = len(measurement.samples) > 1
    told = _QUANTILES.search(measurement.note or "")
    if told is None:
        return Taken(count, None, None, there)
    return Taken(count, float(told[1]), float(told[2]), there)
