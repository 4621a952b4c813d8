"""Crossover points: between which sizes one subject overtakes another, where the judged intervals say so on both sides.

At one size A is better than B (the whole 99 % interval outside the band), at a later one B than A. The crossing lies where the lines
of the medians meet on logarithmic axes; its interval reaches from the last size at which A was still shown to be better to the first at
which B was, narrowed to where the intervals of the ratio reach one between those sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from bench.judge.verdict import BETTER, WORSE
from bench.report.answers.against import Against, judge, pair_of
from bench.report.numbers import units
from bench.report.numbers.findings import other_numbers
from bench.report.numbers.layout import Facet
from bench.report.numbers.summary import TIME, CaseSummary

MOST_SUBJECTS = 12
"""Pairs grow with the square of it; beyond, only those that are fastest somewhere and the baseline are paired."""

COUNTED = "world_size"
"""Sizes between which there is none."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Below `at` the first is the faster one, above it the second."""

    first: str
    second: str
    at: float
    low: float
    high: float
    settled: bool
    """Whether both sides of it are judged; else only the medians cross."""

    def words(self, swept: str) -> str:
        """`flex overtakes sdpa_flash at seq len 1870 (1500–2300)`, or `between world size 1 and 2`."""
        name = swept.replace("_", " ")
        where = f"at {name} {_number(self.at)} ({_number(self.low)}{units.EN_DASH}{_number(self.high)})"
        if swept == COUNTED:
            where = f"between {name} {math.floor(self.low)} and {math.ceil(self.high)}"
        how = "" if self.settled else " by medians; too few trials to judge"
        return f"{self.second} overtakes {self.first} {where}{how}"


def _number(value: float) -> str:
    """Three digits: a crossing is no size that was measured."""
    if value < 1:
        return f"{value:.3g}"
    step = 10 ** max(0, math.floor(math.log10(value)) - 2)
    return f"{round(value / step) * step:.0f}" if value >= 100 else f"{value:.3g}"


def crossings(facet: Facet) -> tuple[Crossing, ...]:
    """Of every two subjects that compute the same, by the size at which they cross."""
    xs = [x for x in facet.xs if x is not None]
    others = other_numbers(facet)
    labels = [label for label in facet.labels if label not in others]
    if len(labels) > MOST_SUBJECTS:
        labels = _leading(facet, labels, xs)
    found = [crossing for one, two in combinations(labels, 2) for crossing in _of_pair(facet, one, two, xs)]
    return tuple(sorted(found, key=lambda crossing: (crossing.at, crossing.first, crossing.second)))


def _leading(facet: Facet, labels: Sequence[str], xs: Sequence[float]) -> list[str]:
    best = set()
    for x in xs:
        timed = [cell for label in labels if (cell := _timed(facet, label, x)) is not None]
        if timed:
            best.add(min(timed, key=lambda cell: cell.values[TIME].median).label)
    return [label for label in labels if label in best or label == facet.baseline]


def _timed(facet: Facet, label: str, x: float) -> CaseSummary | None:
    cell = facet.cells.get((label, x))
    return cell if cell is not None and cell.usable and TIME in cell.values and cell.values[TIME].median > 0 else None


def _of_pair(facet: Facet, one: str, two: str, xs: Sequence[float]) -> list[Crossing]:
    """In the order of sizes. The ratio is two over one: above 1 one is faster."""
    both = [(x, a, b) for x in xs if (a := _timed(facet, one, x)) is not None and (b := _timed(facet, two, x)) is not None]
    verdicts = judge([pair_of(b, a, TIME, other=False) for _, a, b in both])
    points = [
        (float(x), math.log(b.values[TIME].median / a.values[TIME].median), verdict)
        for (x, a, b), verdict in zip(both, verdicts, strict=True)
    ]
    if any(verdict.low is None for _, _, verdict in points):
        return _by_medians(one, two, points)
    found, last = [], None
    for place, (_, _, verdict) in enumerate(points):
        if verdict.word not in (BETTER, WORSE):
            continue
        if last is not None and points[last][2].word != verdict.word:
            found.append(_settled(one, two, points, last, place))
        last = place
    return found


def _settled(one: str, two: str, points: Sequence[tuple[float, float, Against]], begin: int, end: int) -> Crossing:
    """Between two judged sizes that say the opposite of each other."""
    part = points[begin : end + 1]
    sign = 1.0 if part[0][1] > 0 else -1.0
    middle = _reaches_zero([(x, sign * ratio) for x, ratio, _ in part])
    bounds = [
        [(x, sign * math.log(v.low or 1.0)) for x, _, v in part],
        [(x, sign * math.log(v.high or 1.0)) for x, _, v in part],
    ]
    edges = sorted(_reaches_zero(bound) for bound in bounds)
    first, second = (one, two) if sign > 0 else (two, one)
    return Crossing(first, second, middle, min(edges[0], middle), max(edges[1], middle), settled=True)


def _reaches_zero(points: Sequence[tuple[float, float]]) -> float:
    """Where a line from above to below zero crosses it, on a logarithmic axis of sizes; an end where it does not."""
    for (x, y), (later, below) in pairwise(points):
        if y > 0 >= below:
            return math.exp(math.log(x) + (math.log(later) - math.log(x)) * y / (y - below))
    return points[0][0] if points[0][1] <= 0 else points[-1][0]


def _by_medians(one: str, two: str, points: Sequence[tuple[float, float, Against]]) -> list[Crossing]:
    found = []
    for (x, ratio, _), (later, other, _) in pairwise(points):
        if ratio * other < 0:
            sign = 1.0 if ratio > 0 else -1.0
            first, second = (one, two) if sign > 0 else (two, one)
            found.append(
                Crossing(first, second, _reaches_zero([(x, sign * ratio), (later, sign * other)]), x, later, settled=False)
            )
    return found
