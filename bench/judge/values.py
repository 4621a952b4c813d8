"""Judges the numbers of one series on two sides: by intervals where there is noise, by exact rules where there is none.

Noise (times). The 99 % interval of the ratio must lie wholly outside the band, and the row must be among those that Benjamini and Hochberg
leave at 5 % over all rows judged together; `Reading.p` is what they need, `Reading.settled` what follows. The band is the metric's floor;
once 30 process medians of the series exist also twice their spread over √n, and for sides measured apart also three times how far earlier
runs differed, or how far the rows of these two scatter. Equal means shown to differ by less than 5 %. Where the interval is wider than the
margin nothing could have been shown.

Memory has exact rules: the ranges over processes must be apart by more than both floors. A t-test of numbers that do not vary is 0/0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.judge import thresholds
from bench.judge.intervals import Block, LogRatio, cliffs_delta, log_ratio
from bench.judge.thresholds import RULES, Manner, Rule
from bench.judge.verdict import Ratio, Threshold, Word
from bench.stats import median

SMALLEST, LARGEST = 1e-30, 1e30
BETWEEN_SDS = 3.0
"""Standard deviations of what the machine does between two runs that a difference must exceed: one row in some hundreds does by chance."""

ByGpu = Mapping[str, Sequence[float]]
"""UUID of the physical GPU (`""` on a CPU or where it is not known) to process medians."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What earlier runs say of one series, in logarithms; None for what they are too few for."""

    within: float | None = None
    """Standard deviation between the processes of a run."""
    processes: int = 0
    between: float | None = None
    """Standard deviation of the medians of runs, beyond steps in their history."""
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Sides:
    """The numbers of one series. `first` and `second` hold no empty lists, and some number each."""

    metric: str
    workload: str
    first: ByGpu
    second: ByGpu
    cycles_first: ByGpu | None = None
    cycles_second: ByGpu | None = None
    interleaved: bool = False
    """Whether both sides were measured in one run, in turn."""
    noise: Noise = Noise()
    crowded: bool = False
    """Whether other processes held the cores of a CPU during most trials of a side."""
    scatter: float | None = None
    """Standard deviation of the log ratios of all rows beyond their own errors; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the numbers of one series say, before it is known how many others were read with it."""

    word: Word
    reason: str
    n_first: int
    n_second: int
    median_first: float | None
    median_second: float | None
    ratio: Ratio | None = None
    threshold: Threshold | None = None
    p: float | None = None
    log_ratio: LogRatio | None = None
    """The estimate that the ratio was made of."""
    effect: float | None = None
    smallest_detectable: float | None = None
    cycles: Ratio | None = None
    notes: tuple[str, ...] = ()
    enough_trials: int | None = None
    """Processes a side with which the interval would be as narrow as the band; None where more would change nothing."""

    @property
    def moved(self) -> bool:
        """Whether the numbers differ by more than the threshold allows."""
        return self.word in (Word.WORSE, Word.BETTER)

    def settled(self, p_adjusted: float | None, rows: int) -> Reading:
        """The reading among `rows` others: what may well be one of many chances is no finding."""
        if not self.moved or p_adjusted is None or p_adjusted <= thresholds.FALSE_DISCOVERIES:
            return self
        reason = f"outside the band by itself, but among {rows} rows such a row may be chance (adjusted p = {p_adjusted:.2g})"
        return replace(self, word=Word.AMBIGUOUS, reason=reason)


def flat(side: ByGpu) -> list[float]:
    """All process medians of a side, in one list."""
    return [value for gpu in sorted(side) for value in side[gpu]]


def read(sides: Sides) -> Reading:
    """The reading of one series by the rule of its metric. Raises KeyError for a metric without a rule."""
    rule = RULES[sides.metric]
    first, second = flat(sides.first), flat(sides.second)
    if not all(_can_be(value) for value in (*first, *second)):
        return _unread(Word.INVALID, "a number that no measurement gives: not finite, or beyond all sizes", first, second)
    if rule.manner is Manner.NOISY:
        if min(*first, *second) <= 0:
            return _unread(Word.INVALID, "a time of zero or below", first, second)
        return _noisy(sides, rule, first, second)
    return _by_ranges(sides, rule, first, second)


def _can_be(value: float) -> bool:
    """Whether ratios of such numbers are numbers: imported rows may hold anything that fits in a float."""
    return value == 0 or SMALLEST <= abs(value) <= LARGEST


def _unread(word: Word, reason: str, first: Sequence[float], second: Sequence[float]) -> Reading:
    return Reading(word, reason, len(first), len(second), None, None)


# --- noise -------------------------------------------------------------------------------------------------------------------


def _noisy(sides: Sides, rule: Rule, first: list[float], second: list[float]) -> Reading:
    middle, other = median(first), median(second)
    blocks, notes = _blocks(sides.first, sides.second)
    shared = any(gpu in sides.second for gpu in sides.first)
    threshold = _band(sides, rule, middle, shared=shared)
    start = Reading(
        Word.INSUFFICIENT, "", len(first), len(second), middle, other, Ratio(other / middle), threshold, notes=notes,
        effect=cliffs_delta(first, second),
    )  # fmt: skip
    usable = min((sum(len(block[side]) for block in blocks) for side in (0, 1)), default=0)
    if usable < thresholds.FEWEST:
        reason = f"{usable} process{'' if usable == 1 else 'es'} on a side: an interval needs {thresholds.FEWEST}"
        return replace(start, reason=reason, enough_trials=max(5, thresholds.FEWEST))
    found = log_ratio(blocks)
    band = math.log1p(threshold.relative)
    start = replace(
        start,
        ratio=Ratio(math.exp(found.estimate), found.interval(thresholds.CONFIDENCE)),
        p=None if found.degrees is None else found.p,
        log_ratio=found,
        smallest_detectable=math.expm1(min(found.detectable(thresholds.CONFIDENCE, band), 700.0)),
    )
    return _with_cycles(sides, band, _decided(start, found, band))


def _blocks(first: ByGpu, second: ByGpu) -> tuple[list[Block], tuple[str, ...]]:
    """Sides within each GPU that measured both; all together where none did."""
    common = sorted(first.keys() & second.keys())
    if not common:
        everything: list[Block] = [(flat(first), flat(second))] if min(len(flat(first)), len(flat(second))) > 1 else []
        return everything, ("no physical GPU measured both sides",)
    blocks: list[Block] = [(first[gpu], second[gpu]) for gpu in common if len(first[gpu]) > 1 and len(second[gpu]) > 1]
    used = sum(len(a) + len(b) for a, b in blocks)
    left = len(flat(first)) + len(flat(second)) - used
    return blocks, (f"{left} processes on GPUs without the other side are left out",) if left and blocks else ()


def _band(sides: Sides, rule: Rule, middle: float, *, shared: bool) -> Threshold:
    found = [(rule.floor, "floor")] if sides.interleaved else [(rule.apart_floor, "floor of runs measured apart")]
    amount = thresholds.absolute_floor(sides.metric, sides.workload)
    found.append((amount / middle, f"floor of {amount:g} s"))
    noise = sides.noise
    if noise.within is not None and noise.processes >= thresholds.BAND_FROM:
        fewest = min(len(flat(sides.first)), len(flat(sides.second)))
        found.append((math.expm1(2 * noise.within / math.sqrt(fewest)), f"spread of {noise.processes} earlier processes"))
    if noise.between is not None and not sides.interleaved:
        found.append((math.expm1(BETWEEN_SDS * math.sqrt(2) * noise.between), f"how far {noise.runs} earlier runs differ"))
    if sides.scatter is not None and not sides.interleaved:
        found.append((scatter_band(sides.scatter), "how far the rows of these runs scatter"))
    if sides.crowded:
        found.append((thresholds.CROWDED, "other processes held the cores"))
    if not shared:
        found.append((thresholds.OTHER_GPU, "two GPUs of one model may differ by as much"))
    return Threshold(*max(found, key=lambda entry: entry[0]))


def scatter_band(scatter: float) -> float:
    """The band, as a share, that rows which scatter by so much are given."""
    return math.expm1(BETWEEN_SDS * scatter)


def _decided(start: Reading, found: LogRatio, band: float) -> Reading:
    low, high = found.bounds(thresholds.CONFIDENCE)
    margin = math.log1p(thresholds.MARGIN)
    if low > band or high < -band:
        word = Word.WORSE if low > 0 else Word.BETTER
        return replace(start, word=word, reason="the whole interval lies outside the band")
    least, most = found.bounds(thresholds.EQUIVALENCE_CONFIDENCE)
    if -margin <= least and most <= margin:
        return replace(start, word=Word.SAME, reason=f"shown to differ by less than {thresholds.MARGIN:.0%}")
    half = found.half_width(thresholds.CONFIDENCE)
    enough = _enough(half, band, start)
    if half > margin:
        reason = f"the interval is wider than ±{thresholds.MARGIN:.0%}: the processes differ too much, or are too few"
        return replace(start, word=Word.INSUFFICIENT, reason=reason, enough_trials=enough)
    return replace(
        start, word=Word.AMBIGUOUS, reason="neither a difference beyond the band nor equality is shown", enough_trials=enough
    )


def _enough(half: float, band: float, reading: Reading) -> int:
    """Processes a side for a half width of `band`, since it shrinks with the root of their number; within the most that is asked for."""
    now = min(reading.n_first, reading.n_second)
    return min(thresholds.MOST_TRIALS, max(now + 1, math.ceil(now * (half / band) ** 2)))


def _with_cycles(sides: Sides, band: float, reading: Reading) -> Reading:
    """Holds a time against the cycles: what differs in time alone may be the clock and not the code."""
    if sides.metric != thresholds.TIME or sides.cycles_first is None or sides.cycles_second is None:
        return reading
    first, second = flat(sides.cycles_first), flat(sides.cycles_second)
    blocks, _ = _blocks(sides.cycles_first, sides.cycles_second)
    if not blocks or min(*first, *second) <= 0 or min(len(first), len(second)) < thresholds.FEWEST:
        return reading
    found = log_ratio(blocks)
    reading = replace(reading, cycles=Ratio(math.exp(found.estimate), found.interval(thresholds.CONFIDENCE)))
    low, high = found.bounds(thresholds.CONFIDENCE)
    in_cycles = Word.WORSE if low > band else Word.BETTER if high < -band else None
    if reading.moved and in_cycles is not reading.word:
        if sides.interleaved:
            return replace(
                reading, notes=(*reading.notes, "cycles agree: the clock follows the side, which measured in turn is its doing")
            )
        return replace(reading, word=Word.AMBIGUOUS, reason="clock: the time differs and the cycles do not", enough_trials=None)
    if in_cycles is not None and not reading.moved:
        return replace(reading, notes=(*reading.notes, f"in cycles it is {in_cycles}: the clock hides it in the time"))
    return reading


# --- memory, sizes, errors -----------------------------------------------------------------------------------------------------


def _by_ranges(sides: Sides, rule: Rule, first: list[float], second: list[float]) -> Reading:
    middle, other = median(first), median(second)
    floor = rule.floor if sides.interleaved else rule.apart_floor
    seen_to_repeat = sides.metric.endswith("_bytes") and min(len(first), len(second)) > 1
    steady = seen_to_repeat and min(first) == max(first) and min(second) == max(second)
    amount = min(rule.amount, thresholds.EXACT_RESOLUTION) if steady else rule.amount
    limit = max(floor * abs(middle), amount)
    up, down = min(second) - max(first), min(first) - max(second)
    threshold = Threshold(limit / abs(middle) if middle else floor, _range_source(rule, amount, floor * abs(middle)))
    ratio = Ratio(other / middle) if middle > 0 and other > 0 else None
    start = Reading(
        Word.SAME, "", len(first), len(second), middle, other, ratio, threshold, effect=cliffs_delta(first, second),
        notes=("one process on a side",) if min(len(first), len(second)) == 1 and rule.manner is not Manner.EXACT else (),
    )  # fmt: skip
    if max(up, down) > limit:
        reason = (
            "any change counts" if rule.manner is Manner.EXACT else "the ranges over processes are apart by more than the floors"
        )
        return replace(start, word=Word.WORSE if up > down else Word.BETTER, reason=reason)
    if abs(other - middle) <= limit:
        return replace(start, reason="equal" if middle == other else "differs by less than the floors")
    return replace(
        start, word=Word.AMBIGUOUS, reason="the medians differ by more than the floors, and the ranges over processes touch"
    )


def _range_source(rule: Rule, amount: float, share: float) -> str:
    if rule.manner is Manner.EXACT:
        return "exact"
    if amount <= share:
        return "floor"
    return "floor of an amount" if amount == rule.amount else "neither side varies, so the smallest amount that is not nothing"
