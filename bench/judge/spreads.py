"""How far the times of equal things scatter, series by series: between the processes of a run, and between runs.

The spread between runs is a variance component: what the means of runs differ by beyond what their processes explain (one-way random
effects, by moments). From two runs that of one series is a rough number; over all series together it is a good one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.evidence import Evidence
from bench.judge.intervals import pooled_sd
from bench.judge.thresholds import TIME
from bench.judge.verdict import Series
from bench.records import Status
from bench.stats import mean, stdev


@dataclass(frozen=True, slots=True)
class Spread:
    """One series of times on one physical GPU, or on a CPU. Standard deviations are of logarithms, so they read as shares."""

    series: Series
    processes: int
    """Of all runs together."""
    runs: int
    within: float
    """Between the processes of a run."""
    between_variance: float | None
    """Between runs; below zero where they differ by less than their processes explain, None with fewer than two runs."""

    @property
    def between(self) -> float | None:
        """Between runs."""
        return None if self.between_variance is None else math.sqrt(max(0.0, self.between_variance))


def spreads(runs: Sequence[Evidence]) -> tuple[Spread, ...]:
    """The spread of each series of times that has two processes in some run; canaries left out."""
    groups: dict[tuple[object, ...], dict[int, list[float]]] = {}
    series: dict[tuple[object, ...], Series] = {}
    for number, evidence in enumerate(runs):
        for row in evidence.trials:
            value = row.medians.get(TIME)
            if row.status is not Status.OK or evidence.is_canary(row.case_key) or value is None or not 0 < value < math.inf:
                continue
            key = row.case_key, row.arm, row.hard_hash, row.method_version, row.gpu or ""
            groups.setdefault(key, {}).setdefault(number, []).append(value)
            series[key] = Series(evidence.cases[row.case_key], row.case_key, TIME, row.hard_hash, row.method_version, row.arm)
    found = []
    for group in sorted(groups, key=repr):
        values = list(groups[group].values())
        pooled = pooled_sd(values)
        if pooled is not None:
            found.append(Spread(series[group], sum(map(len, values)), len(values), pooled[0], _variance_between(values, pooled[0])))
    return tuple(found)


def pooled_between(found: Sequence[Spread]) -> float | None:
    """The spread between runs over all series; None where no series has two runs."""
    variances = [one.between_variance for one in found if one.between_variance is not None]
    return math.sqrt(max(0.0, mean(variances))) if variances else None


def _variance_between(runs: Sequence[Sequence[float]], within: float) -> float | None:
    if len(runs) < 2:
        return None
    means = [mean([math.log(value) for value in values]) for values in runs]
    explained = within**2 * mean([1 / len(values) for values in runs])
    return stdev(means) ** 2 - explained
