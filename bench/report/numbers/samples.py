"""How many samples a measurement had and how they were spread, also where a median or some are left of them, with a note of how many."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench import stats
from bench.records import Measurement
from bench.report.numbers.units import in_unit
from bench.store.thinning import samples_before

_STATISTIC = re.compile(r"(?<=[,;:] )(mean|median|min|max|stddev|q1|q3|\d+ %) (-?\d[\d.]*(?:e[+-]?\d+)?)(?=[,;]|$)")
_QUANTILES = re.compile(r", 5 % ([\d.e+-]+), 95 % ([\d.e+-]+)$")


@dataclass(frozen=True, slots=True)
class Taken:
    """What was sampled. `low` and `high` are the 5th and 95th percentile; None where a note does not tell them."""

    count: int
    low: float | None
    high: float | None
    there: bool
    """Whether samples are there: all, or some at even ranks."""


def note_in_units(measurement: Measurement) -> str | None:
    """The note as people read it: statistics that it tells, which are kept in the measurement's own unit, with one that suits them."""
    if measurement.note is None:
        return None
    return _STATISTIC.sub(lambda found: f"{found[1]} {in_unit(float(found[2]), measurement.unit)}", measurement.note)


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
