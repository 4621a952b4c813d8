"""How each metric is judged: as noise, by exact rules or by factors, and from which difference on one matters.

Floors are the smallest differences that anybody would act on; they keep a precise measurement from crying wolf. A metric without a rule is
a part or an explanation of one that has a rule (phases of a step, causes of a peak, clocks), or the harness's own cost, and is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

CONFIDENCE = 0.99
"""Of the interval that must lie outside the band."""
FALSE_DISCOVERIES = 0.05
"""Of the rows called better or worse, at most this share is expected to be neither."""
MARGIN = 0.05
"""Two sides are the same where they are shown to differ by less."""
EQUIVALENCE_CONFIDENCE = 0.90
"""Two one-sided tests at 5 % are one interval of 90 %."""
FEWEST = 3
"""Processes of a side from which on an interval is made."""
MOST_TRIALS = 16
"""More processes a side are never asked for."""
BAND_FROM = 30
"""Process medians of a series from which on its own spread widens the band; with fewer it is the floor alone."""
OTHER_GPU = 0.05
"""Two GPUs of one model differ by up to this much. Where no GPU measured both sides, nothing below it is told."""
CROWDED = 0.25
"""Where other processes held the cores of a CPU, two runs of one thing differ by up to about this much."""
BUSY_SHARE = 0.9
"""Of all cores, from which on other busy processes crowd a trial out."""
EXACT_RESOLUTION = 64 * 2**10
"""Bytes. Where neither side varies, a floor for noise has no purpose, and only what is smaller than this is nothing."""
TRAINING_STEP = "train_step"


class Manner(StrEnum):
    """The rule that a metric is judged by."""

    NOISY = "noisy"
    """Welch on logs of process medians, against a band."""
    STABLE = "stable"
    """Nearly deterministic: the ranges over processes must be apart, by more than the floors."""
    EXACT = "exact"
    """Every change counts."""
    NUMERIC = "numeric"
    """An error against a reference, other at every input: only a growth by a factor counts, with ranges apart."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Floors are a share of the first side's value and an amount in the metric's unit; a difference must exceed both."""

    manner: Manner
    floor: float
    apart_floor: float
    """The same where the sides were measured in runs of their own, so that what the machine did in between is in the ratio."""
    amount: float = 0.0


TIME, CYCLES, ERROR_SHARE = "time_s", "cycles", "error_share"
SPEED = frozenset({TIME, CYCLES})

RULES: Mapping[str, Rule] = {
    TIME: Rule(Manner.NOISY, 0.01, 0.02, 1e-6),
    "peak_bytes": Rule(Manner.STABLE, 0.005, 0.005, 16 * 2**20),
    "peak_total_bytes": Rule(Manner.STABLE, 0.005, 0.005, 16 * 2**20),
    "saved_bytes": Rule(Manner.STABLE, 0.005, 0.005, 16 * 2**20),
    "peak_reserved_bytes": Rule(Manner.STABLE, 0.02, 0.02, 64 * 2**20),
    "device_used_bytes": Rule(Manner.STABLE, 0.02, 0.02, 64 * 2**20),
    "compile_cold_s": Rule(Manner.STABLE, 0.10, 0.10, 2.0),
    "energy_j": Rule(Manner.NOISY, 0.03, 0.03),
    "weight_bytes": Rule(Manner.EXACT, 0.0, 0.0),
    "state_bytes": Rule(Manner.EXACT, 0.0, 0.0),
    "output_error": Rule(Manner.NUMERIC, 0.25, 0.25),
    "update_error": Rule(Manner.NUMERIC, 0.25, 0.25),
    ERROR_SHARE: Rule(Manner.NUMERIC, 2.0, 2.0, 0.1),
}
"""`error_share` is made of the checks: the largest error as a share of its limit. Inputs are drawn anew in each run, so an error may
double by chance, and one far below its limit is rounding. Its log has a standard deviation of 0.17 between runs of one attention kernel on
an H200 (forward and backward; 0.10 forward alone), each side is one process, and 1 of 61 pairs came near twice: a factor of 2 would cry
wolf in one row of two hundred, a factor of 3 in one of a hundred thousand."""


def absolute_floor(metric: str, workload: str) -> float:
    """The amount, in the metric's unit, below which nothing counts: 0.1 ms of a training step, 1 µs of anything shorter."""
    return 1e-4 if metric == TIME and workload == TRAINING_STEP else RULES[metric].amount
