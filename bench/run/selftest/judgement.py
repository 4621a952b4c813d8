"""The lines of a self-test, and the arithmetic that decides them: expected against measured, with a tolerance that is said.

A line is a `pass`, a `miss`, or `cannot_tell` with the reason: the part did not work here, or what went on beside it (another
process took the core) explains the miss, so that it says nothing about us.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bench.stats import iqr, median, relative_spread

SHORT_SPIN_S = 600e-6
SPIN_WITHIN_S = 3e-6
SPIN_WITHIN = 0.005
AGREE_ABOVE_S = 200e-6
RATIO_WITHIN = 0.01
CLOCKS_DIFFER = 0.01


class Verdict(StrEnum):
    """How a line came out."""

    PASS = "pass"
    MISS = "miss"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line. `unit` is `s`, `byte`, `cycle`, `ratio`, or `share` (of one); it holds for expected, measured, low and high."""

    part: str
    what: str
    verdict: Verdict
    unit: str = ""
    expected: float | None = None
    measured: float | None = None
    low: float | None = None
    """Lowest and highest over trials or rounds, where there are several."""
    high: float | None = None
    tolerance: str = ""
    reason: str | None = None
    """Always with `cannot_tell`; with a miss where more is to be said."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Further numbers in SI units, named with their units."""
    decided_elsewhere: bool = False
    """Another line decides what this one cannot tell: it does not count for the exit code."""


def exit_code(judgements: Sequence[Judgement]) -> int:
    """0 all within · 1 a miss · 3 something, or everything, could not be judged."""
    if any(line.verdict is Verdict.MISS for line in judgements):
        return 1
    deciding = [line for line in judgements if not line.decided_elsewhere]
    return 0 if deciding and all(line.verdict is Verdict.PASS for line in deciding) else 3


def cannot_tell(part: str, what: str, reason: str) -> Judgement:
    """A line without numbers."""
    return Judgement(part, what, Verdict.CANNOT_TELL, reason=reason)


def excused(line: Judgement, disturbance: str | None) -> Judgement:
    """A miss with a known disturbance beside it says nothing about us."""
    if line.verdict is not Verdict.MISS or disturbance is None:
        return line
    return dataclasses.replace(line, verdict=Verdict.CANNOT_TELL, reason=disturbance)


def _verdict(good: bool) -> Verdict:
    return Verdict.PASS if good else Verdict.MISS


def at_most(part: str, what: str, measured: float, limit: float, unit: str, tolerance: str, **more: object) -> Judgement:
    """Nothing is expected, and up to `limit` may be read."""
    return Judgement(part, what, _verdict(measured <= limit), unit, 0.0, measured, tolerance=tolerance, **more)  # type: ignore[arg-type]


def spin(part: str, what: str, length_s: float, trials: Sequence[Sequence[float]]) -> Judgement:
    """A busy wait of known length: within 3 us below 600 us, within 0.5 % above."""
    centres = [median(samples) for samples in trials]
    measured = median(centres)
    short = length_s < SHORT_SPIN_S
    within_s = SPIN_WITHIN_S if short else SPIN_WITHIN * length_s
    return Judgement(
        part,
        what,
        _verdict(abs(measured - length_s) <= within_s),
        "s",
        length_s,
        measured,
        tolerance="± 3 µs" if short else "± 0.5 %",
        beside={"spread_within": _spread_within(trials), "samples": float(sum(map(len, trials)))},
    )


def _spread_within(trials: Sequence[Sequence[float]]) -> float:
    """Interquartile range over median of one process, the median over the processes."""
    return median([iqr(samples) / median(samples) for samples in trials])


def exact(part: str, what: str, expected: float, measured: float) -> Judgement:
    """To the byte."""
    return Judgement(part, what, _verdict(measured == expected), "byte", expected, measured, tolerance="to the byte")


def slow_down(part: str, share: float, expected: float, base: Sequence[float], slowed: Sequence[float]) -> Judgement:
    """An injected slow-down: per round, slowed / base. Seen where every round lies above one, right where the median is within 1 %.

    Args:
        share: what the slow-down is called (0.02 for 2 %).
        expected: the ratio that was injected.
        base, slowed: medians of the trials of each round, in the same order.
    """
    ratios = [after / before for before, after in zip(base, slowed, strict=True)]
    centre = median(ratios)
    good = min(ratios) > 1.0 and abs(centre - expected) <= RATIO_WITHIN
    return Judgement(
        part,
        f"slow-down of {share:.0%} injected",
        _verdict(good),
        "ratio",
        expected,
        centre,
        min(ratios),
        max(ratios),
        tolerance="± 0.01, each round above 1",
        beside={"rounds": float(len(ratios))},
    )


def agreement(
    part: str, what: str, ours: Sequence[float], theirs: Sequence[float], *, within: float, within_s: float = 0.0
) -> Judgement:
    """Another timer against ours, theirs / ours per round: the median over the rounds lies within `within` of one.

    For calls below 200 us `within_s` is granted where that is more. Rounds are compared each for itself, so that a machine that
    drifts moves both sides.
    """
    ratios = [other / own for own, other in zip(ours, theirs, strict=False)]
    own_s, other_s, centre = median(ours), median(theirs), median(ratios)
    granted_s = within_s if own_s < AGREE_ABOVE_S else 0.0
    allowed = max(within, granted_s / own_s)
    return Judgement(
        part,
        what,
        _verdict(abs(centre - 1.0) <= allowed),
        "ratio",
        1.0,
        centre,
        min(ratios),
        max(ratios),
        tolerance=f"± {within:.0%}" if allowed == within else f"± {granted_s * 1e6:g} µs",
        beside={"ours_s": own_s, "theirs_s": other_s, "rounds": float(len(ratios))},
    )


def agreement_in_cycles(
    line: Judgement,
    ours: Sequence[float],
    theirs: Sequence[float],
    ours_hz: Sequence[float | None],
    theirs_hz: Sequence[float | None],
    *,
    within: float,
) -> tuple[Judgement, Judgement]:
    """The line of `agreement` in time as it stands beside clocks, and a second one in cycles (time x SM clock, per round).

    Time decides. Only where it misses and the clocks of the two sides differ by more than 1 % do cycles: a timer that keeps a
    power-capped GPU busier slows it down, and both timers are right. A call bound by memory does not follow the clock, so its cycles
    may differ where its time agrees.
    """
    what = f"{line.what}, in cycles"
    rounds = [
        (own * own_hz, other * other_hz, own_hz, other_hz)
        for own, other, own_hz, other_hz in zip(ours, theirs, ours_hz, theirs_hz, strict=False)
        if own_hz and other_hz
    ]
    if not rounds:
        reason = "the SM clock could not be read on both sides"
        return line, dataclasses.replace(cannot_tell(line.part, what, reason), decided_elsewhere=True)
    own_cycles, other_cycles, own_hz, other_hz = (list(column) for column in zip(*rounds, strict=True))
    clocks = {"ours_hz": median(own_hz), "theirs_hz": median(other_hz)}
    ratio = median([after / before for before, after in zip(own_hz, other_hz, strict=True)])
    cycles = dataclasses.replace(
        agreement(line.part, what, own_cycles, other_cycles, within=within),
        beside={"ours_cycles": median(own_cycles), "theirs_cycles": median(other_cycles), "rounds": float(len(rounds))},
    )
    line = dataclasses.replace(line, beside={**line.beside, **clocks})
    if line.verdict is Verdict.MISS and abs(ratio - 1.0) > CLOCKS_DIFFER:
        reason = f"clocks differ ({clocks['theirs_hz'] / 1e9:.2f} against {clocks['ours_hz'] / 1e9:.2f} GHz); cycles decide"
        return dataclasses.replace(line, verdict=Verdict.CANNOT_TELL, reason=reason, decided_elsewhere=True), cycles
    if cycles.verdict is Verdict.MISS:
        reason = "the time decides: it does not follow the clock here"
        cycles = dataclasses.replace(cycles, verdict=Verdict.CANNOT_TELL, reason=reason, decided_elsewhere=True)
    return line, cycles


def spread(part: str, what: str, trials: Sequence[Sequence[float]], limit: float) -> Judgement:
    """Standard deviation / mean of the trials' medians. `beside` has the spread within: median over trials of IQR / median."""
    centres = [median(samples) for samples in trials]
    between = relative_spread(centres) or 0.0
    return Judgement(
        part,
        what,
        _verdict(between <= limit),
        "share",
        0.0,
        between,
        tolerance=f"≤ {limit * 100:g} %",
        beside={
            "spread_within": _spread_within(trials),
            "median": median(centres),
            "lowest_median": min(centres),
            "highest_median": max(centres),
            "processes": float(len(trials)),
        },
    )
