"""Finds where the level of a series changes: E-divisive for candidates, t-tests to keep them, an L1 Potts fit as the second opinion.

*Candidates.* Within windows of 50 points the split is taken where the energy distance between both sides is largest (Matteson and James,
JASA 109, 2014, with exponent 1), then each side is split in turn as long as a t-test tells its sides apart.

*Merging.* From the weakest on a boundary goes while its t-test, made between the whole neighbouring segments, is above 0.001, while the
step is below the floor or below two pooled median absolute deviations, or while a segment before the last has fewer than five points. A
boundary less than five points before the end is provisional: the next points may take it away.

*Second opinion.* A fit of steps with the least absolute error, each step at a price (Potts; Friedrich et al., JCGS 17, 2008, solve it
exactly in n²). A boundary in both is firm, one in the first alone weak.

Numbers are logarithms throughout, so that a step means the same on every scale. Spikes stay in: taken out they take real steps with them.
"""

from __future__ import annotations

import itertools
import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.judge.student import two_sided_p
from bench.stats import MAD_TO_SD, median

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WINDOW = 50
P_KEPT = 0.001
P_CANDIDATE = 10 * P_KEPT
FEWEST_POINTS = 5
WELCH_FROM = 10
SMALLEST_STEP = 0.01
MADS = 2.0
AGREE_WITHIN = 2
"""Points that both fits may differ by and still mean one boundary."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A step between two segments."""

    index: int
    """Of the first point after it."""
    ratio: float
    """Median after over median before."""
    p: float
    provisional: bool
    firm: bool


def change_points(values: Sequence[float], *, floor: float = SMALLEST_STEP) -> tuple[ChangePoint, ...]:
    """The change points of a series in the order of time, all above zero. Raises ValueError for a value that is not."""
    import numpy as np

    if not all(0 < value < math.inf for value in values):
        raise ValueError("change points are of numbers above zero")
    logs = np.log(np.asarray(values, dtype=float))
    kept = _merged(logs, sorted(_candidates(logs)), math.log1p(floor))
    second = potts(logs.tolist()) if kept else []
    found = []
    for index, before, after in _segments(logs, kept):
        firm = any(abs(index - other) <= AGREE_WITHIN for other in second)
        ratio = math.exp(float(np.median(after) - np.median(before)))
        found.append(ChangePoint(index, ratio, p_apart(before, after), len(after) < FEWEST_POINTS and index == kept[-1], firm))
    return tuple(found)


def _segments(logs: Floats, boundaries: Sequence[int]) -> list[tuple[int, Floats, Floats]]:
    """Each boundary with the segments on its sides."""
    edges = [0, *boundaries, len(logs)]
    return [(edges[k], logs[edges[k - 1] : edges[k]], logs[edges[k] : edges[k + 1]]) for k in range(1, len(edges) - 1)]


def p_apart(before: Floats, after: Floats) -> float:
    """How likely both sides, in logarithms, are of one level.

    By the t-test with one variance for both sides, so that a side may be a single point; and by Welch's, whichever is larger, where both
    have ten points for a variance of their own: else a change of spread alone would pass for a step.
    """
    degrees = len(before) + len(after) - 2
    difference = abs(float(after.mean() - before.mean()))
    if degrees < 1:
        return 1.0
    squares = [float(((side - side.mean()) ** 2).sum()) for side in (before, after)]
    pooled = sum(squares) / degrees * (1 / len(before) + 1 / len(after))
    # Numbers that are equal but for rounding do not vary: then any visible difference is one.
    if pooled <= 1e-24:
        return 0.0 if difference > 1e-9 else 1.0
    p = two_sided_p(difference / math.sqrt(pooled), degrees)
    if min(len(before), len(after)) < WELCH_FROM:
        return p
    own = [total / (n - 1) / n for total, n in zip(squares, (len(before), len(after)), strict=True)]
    welch = sum(own) ** 2 / sum(v**2 / (n - 1) for v, n in zip(own, (len(before), len(after)), strict=True))
    return max(p, two_sided_p(difference / math.sqrt(sum(own)), welch))


def _candidates(logs: Floats) -> set[int]:
    found: set[int] = set()
    step = WINDOW // 2
    for start in range(0, max(len(logs) - step, 1), step):
        window = logs[start : start + WINDOW]
        found |= {start + index for index in _split(window)}
    return found


def _split(window: Floats) -> list[int]:
    found: list[int] = []
    waiting = [(0, len(window))]
    while waiting:
        start, end = waiting.pop()
        if end - start < 3:
            continue
        index = start + _best_split(window[start:end])
        if p_apart(window[start:index], window[index:end]) <= P_CANDIDATE:
            found.append(index)
            waiting += [(start, index), (index, end)]
    return found


def _best_split(part: Floats) -> int:
    """Where the energy distance between the two sides, weighted by their sizes, is largest; at least one point on each side."""
    import numpy as np

    n = len(part)
    distances: Any = np.abs(part[:, None] - part[None, :])
    total = distances.cumsum(axis=0).cumsum(axis=1)
    left = np.arange(1, n)
    right = n - left
    within_left = total[left - 1, left - 1]
    across = total[left - 1, n - 1] - within_left
    within_right = total[n - 1, n - 1] - within_left - 2 * across
    pairs_left, pairs_right = np.maximum(left * (left - 1), 1), np.maximum(right * (right - 1), 1)
    energy = 2 * across / (left * right) - within_left / pairs_left - within_right / pairs_right
    return int(np.argmax(energy * left * right / n)) + 1


def _merged(logs: Floats, candidates: Sequence[int], floor: float) -> list[int]:
    kept = list(candidates)
    while kept:
        weakest = max(
            ((_weakness(k, len(kept), entry, floor), entry[0]) for k, entry in enumerate(_segments(logs, kept))),
            key=lambda found: found[0],
        )
        if weakest[0][:1] == (0,):
            break
        kept.remove(weakest[1])
    return kept


def _weakness(position: int, count: int, entry: tuple[int, Floats, Floats], floor: float) -> tuple[int, float]:
    """(1, p) for a boundary that must go, (0, p) for one that may stay."""
    import numpy as np

    _, before, after = entry
    p = p_apart(before, after)
    step = abs(float(np.median(after) - np.median(before)))
    spread = float(np.median(np.concatenate([np.abs(side - np.median(side)) for side in (before, after)])))
    short = len(before) < FEWEST_POINTS or (len(after) < FEWEST_POINTS and position < count - 1)
    return (int(p > P_KEPT or step < floor or step < MADS * spread or short), p)


def potts(values: Sequence[float]) -> list[int]:
    """Boundaries of the fit of steps that is best in absolute error, where each costs 2 ln(n) times the noise (as a Laplace scale).

    The noise is taken from neighbours, so that steps do not add to it.
    """
    n = len(values)
    if n < 3:
        return []
    noise = median([abs(b - a) for a, b in itertools.pairwise(values)]) * MAD_TO_SD / 2
    price = 2 * math.log(n) * noise
    best = [0.0] * (n + 1)
    best[0] = -price
    came_from = [0] * (n + 1)
    first = 0
    for end in range(1, n + 1):
        best[end] = math.inf
        ordered: list[float] = []
        spread = 0.0
        costs = []
        for start in range(end - 1, first - 1, -1):
            # The least sum of absolute differences to one number grows by the distance of a new value to the nearest median. In place,
            # since it is done ten thousands of times a series.
            value, count = values[start], len(ordered)
            if count:
                low, high = ordered[(count - 1) // 2], ordered[count // 2]
                spread += low - value if value < low else value - high if value > high else 0.0
            insort(ordered, value)
            cost = spread + best[start] + price
            costs.append(cost)
            # Equal but for rounding: the longer segment, which is the simpler fit.
            if cost <= best[end] + 1e-12:
                best[end], came_from[end] = cost, start
        # A segment that begins there costs more even without its price: one that begins at `end` will always cost less (Killick, Fearnhead
        # and Eckley, JASA 107, 2012).
        while first < end and costs.pop() - price > best[end] + 1e-9:
            first += 1
    boundaries, end = [], n
    while came_from[end] > 0:
        end = came_from[end]
        boundaries.append(end)
    return sorted(boundaries)
