"""The sentences on top: which subject was the fastest measured at which sizes, which kept the least memory, and what is doubtful.

These are readings, not verdicts: they name the lowest median with its range over trials and n, and say where ranges overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.machine.throttling import CHOSEN
from bench.records import Result, Run, RunState, Status
from bench.report import units
from bench.report.layout import Facet, Section
from bench.report.rates import CLOCK_WANDERED_CYCLES, CLOCK_WANDERED_TIME, clock_wandered, winner_words
from bench.report.summary import PEAK, TIME, CaseSummary, Reach, Spread

FEW_TRIALS = 3
FEW_SAMPLES = 30
WIDE_RANGE = 0.10
FEWEST_ON_ONE_SM = 0.9
"""Below this share of samples with both clock stamps on one SM, cycles rest on too few of them."""
FLAGS = {
    "launch_bound": "bound by launching kernels and not by the kernels",
}
"""Flags that a worker or the sampler of conditions may raise, in words."""

SEEN_OFTEN = 0.05
"""A reason for lower clocks is told above this share of a trial's readings."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One computed sentence: what was lowest over a span of sizes."""

    metric: str
    where: str
    """Facet and span, for example `forward · seq len 512–4096`."""
    subject: str
    detail: str
    """Value, range and n at the largest size of the span, and the ratio to the baseline."""
    doubt: str | None
    """Why the order may be another one, or None."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that lowers trust, with how many rows it touches."""

    count: int
    text: str


def value_words(spread: Spread, metric: str) -> str:
    """`1.20 ms (1.18–1.25 ms, n 5)`."""
    unit = units.metric_unit(metric)
    if spread.n == 1:
        return f"{units.in_unit(spread.median, unit)} (n 1, no range)"
    if spread.low == spread.high:
        return f"{units.in_unit(spread.median, unit)} (every trial, n {spread.n})"
    return f"{units.in_unit(spread.median, unit)} ({units.range_in_unit(spread.low, spread.high, unit)}, n {spread.n})"


def ratio_words(ratio: Spread) -> str:
    """`0.52× (0.49–0.55)`."""
    low, high = units.digits(ratio.low), units.digits(ratio.high)
    if low == high:
        return units.ratio(ratio.median)
    return f"{units.ratio(ratio.median)} ({low}{units.EN_DASH}{high})"


def _lowest(facet: Facet, x: float | int | None, metric: str) -> tuple[list[CaseSummary], list[CaseSummary]]:
    """Those with the lowest median at `x` (several only if exactly equal), and all others that have a value there."""
    measured = [
        cell
        for label in facet.labels
        if (cell := facet.cells.get((label, x))) is not None and cell.status is Status.OK and metric in cell.values
    ]
    if not measured:
        return [], []
    least = min(cell.values[metric].median for cell in measured)
    return [c for c in measured if c.values[metric].median == least], [c for c in measured if c.values[metric].median != least]


def _span_text(section: Section, facet: Facet, xs: Sequence[float | int | None]) -> str:
    words = [facet.title] if facet.title else []
    if section.swept and xs[0] is not None:
        name = section.swept.replace("_", " ")
        words.append(f"{name} {xs[0]}" if len(xs) == 1 else f"{name} {xs[0]}{units.EN_DASH}{xs[-1]}")
    return " · ".join(words) or "the one point measured"


def _names(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _beside(facet: Facet, x: float | int | None, metric: str, names: tuple[str, ...]) -> str:
    """What the lowest is compared with: the baseline, or the next one where it is the baseline itself."""
    best, others = _lowest(facet, x, metric)
    value = best[0].values[metric]
    baseline = facet.cells.get((facet.baseline, x)) if facet.baseline else None
    if baseline is not None and baseline.label not in names and baseline in others:
        ratio = value.ratio_to(baseline.values[metric])
        return f"; {ratio_words(ratio)} of the baseline {baseline.label}" if ratio else ""
    if not others:
        return ""
    following = min(others, key=lambda cell: cell.values[metric].median)
    ratio = following.values[metric].ratio_to(value)
    return f"; next is {following.label} with {ratio_words(ratio)}" if ratio else ""


def _at(section: Section, xs: Sequence[float | int | None], span: Sequence[float | int | None]) -> str:
    """` at 128, 256`, or nothing where it holds for the whole span."""
    return "" if list(xs) == list(span) or xs[0] is None else f" at {', '.join(str(x) for x in xs)}"


def _reading(section: Section, facet: Facet, xs: list[float | int | None], metric: str, names: tuple[str, ...]) -> Reading:
    best, _ = _lowest(facet, xs[-1], metric)
    value = best[0].values[metric]
    at = f" at {xs[-1]}" if len(xs) > 1 else ""
    rate = winner_words(best[0].rates) if metric == TIME and best[0].case.device == "cuda" else ""
    rate = f" = {rate}" if rate else ""
    detail = f"{'each ' if len(names) > 1 else ''}{value_words(value, metric)}{at}{rate}{_beside(facet, xs[-1], metric, names)}"
    alone: list[float | int | None] = []
    near: dict[str, list[float | int | None]] = {}
    for x in xs:
        first, rest = _lowest(facet, x, metric)
        if not rest and len(first) == 1:
            alone.append(x)
        for cell in rest:
            if cell.values[metric].overlaps(first[0].values[metric]):
                near.setdefault(cell.label, []).append(x)
    doubts = [f"its range overlaps that of {label}{_at(section, sizes, xs)}" for label, sizes in near.items()]
    if alone:
        doubts.append(f"nothing else was measured{_at(section, alone, xs) or ' here'}")
    if value.n == 1 and metric == TIME and not alone:
        doubts.append("one trial only, so the spread is not known")
    return Reading(metric, _span_text(section, facet, xs), _names(names), detail, "; ".join(doubts) or None)


def readings(section: Section, metric: str) -> list[Reading]:
    """For each panel the subject with the lowest median, neighbouring sizes with the same answer joined."""
    found: list[Reading] = []
    for facet in section.facets:
        spans: list[tuple[tuple[str, ...], list[float | int | None]]] = []
        for x in facet.xs:
            best, _ = _lowest(facet, x, metric)
            names = tuple(cell.label for cell in best)
            if names and spans and spans[-1][0] == names:
                spans[-1][1].append(x)
            else:
                spans.append((names, [x]))
        found += [_reading(section, facet, xs, metric, names) for names, xs in spans if names]
    return found


def _flags(results: Sequence[Result]) -> list[Doubt]:
    counts = Counter(name for result in results for name in FLAGS if result.conditions.get(name) is True)
    found = [Doubt(counts[name], f"trials were {FLAGS[name]}") for name in FLAGS if counts[name]]
    unstable = sum(result.conditions.get("warmup_stable") is False for result in results)
    if unstable:
        found.append(Doubt(unstable, f"of {len(results)} timed trials were not stable when warm-up ended"))
    found += _unfinished(results)
    neighbours = Counter(name for result in results for name in sorted(_neighbours(result)))
    if neighbours:
        touched = sum(bool(_neighbours(result)) for result in results)
        names = ", ".join(name for name, _ in sorted(neighbours.items(), key=lambda item: (-item[1], item[0]))[:4])
        found.append(Doubt(touched, f"of {len(results)} timed trials ran beside busy processes of others ({names})"))
    throttled = Counter(word for result in results for word in _throttle_words(result))
    found += [
        Doubt(n, f"of {len(results)} timed trials saw the clocks held back: {word.replace('_', ' ')}")
        for word, n in sorted(throttled.items())
    ]
    return found


def _known(result: Result, name: str, otherwise: float) -> float:
    """A number among the conditions; `otherwise`, which raises no doubt, where the trial did not record one."""
    value = result.conditions.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return otherwise
    try:
        return float(value)
    except OverflowError:
        return otherwise


def _unfinished(results: Sequence[Result]) -> list[Doubt]:
    """Passes that a trial could not make, and what the worker or the runner had to do to get a time at all."""
    left_out: dict[tuple[str, str], int] = {}
    for result in results:
        not_done = result.conditions.get("not_done")
        for phase, reason in not_done.items() if isinstance(not_done, dict) else ():
            left_out[str(phase), str(reason)] = left_out.get((str(phase), str(reason)), 0) + 1
    found = [
        Doubt(n, f"of {len(results)} timed trials did without {phase.replace('_', ' ')}: {units.shorten(reason, 120)}")
        for (phase, reason), n in sorted(left_out.items())
    ]
    strayed = sum(_known(result, "same_sm_share", 1.0) < FEWEST_ON_ONE_SM for result in results)
    if strayed:
        found.append(
            Doubt(
                strayed,
                f"of {len(results)} timed trials could read the clock of fewer than {FEWEST_ON_ONE_SM:.0%} of their samples",
            )
        )
    again = [int(_known(result, "discarded_trials", 0.0)) for result in results if _known(result, "discarded_trials", 0.0) > 0]
    if again:
        found.append(
            Doubt(
                len(again),
                f"of {len(results)} timed trials were measured again, since clocks were held back ({sum(again)} discarded)",
            )
        )
    retried = sum(_known(result, "allocator_retries_while_sampling", 0.0) > 0 for result in results)
    if retried:
        found.append(
            Doubt(retried, f"of {len(results)} timed trials had the allocator free its cache and try again while they were timed")
        )
    return found


def _neighbours(result: Result) -> set[str]:
    processes = result.conditions.get("busy_processes")
    if not isinstance(processes, list):
        return set()
    return {str(entry.get("name", "?")) if isinstance(entry, dict) else str(entry) for entry in processes}


def _throttle_words(result: Result) -> list[str]:
    shares = result.conditions.get("throttle_share")
    if not isinstance(shares, dict):
        return []
    return sorted(
        word for word, share in shares.items() if word not in CHOSEN and isinstance(share, int | float) and share > SEEN_OFTEN
    )


def _about_run(run: Run, cases: Sequence[CaseSummary], canaries: Sequence[CaseSummary]) -> list[Doubt]:
    rows = sum(case.trials_with_row for case in (*cases, *canaries))
    found: list[Doubt] = []
    missing = run.planned_trials - rows
    if run.state is not RunState.FINISHED or missing > 0:
        state = {RunState.BUDGET: "stopped at its time budget"}.get(run.state, f"is {run.state}")
        if run.state is RunState.FINISHED:
            state = "is finished, yet rows are missing"
        if missing > 0:
            found.append(Doubt(missing, f"of {run.planned_trials} planned trials have no row: the run {state}"))
        else:
            found.append(Doubt(run.planned_trials, f"planned trials all have their row, yet the run {state}"))
    dirty = [item.name for item in run.revision if item.dirty]
    if dirty:
        found.append(Doubt(len(dirty), f"under test with uncommitted changes: {', '.join(dirty)}"))
    return found


def doubts(run: Run, cases: Sequence[CaseSummary], reach: Reach | None = None) -> list[Doubt]:
    """What a careful reader of this run must know before believing a number; empty if nothing was found.

    `reach` is what the cases themselves say of the run's canaries; needed only where a run has canaries and no case.
    """
    timed = [case for case in cases if case.status is Status.OK and TIME in case.values]
    trials = [result for case in timed for result in case.counted if result.status is Status.OK]
    canaries = (reach or (cases[0].reach if cases else Reach())).canaries
    found = _about_run(run, cases, canaries)
    hard = {result.environment.hard_hash for case in cases for result in case.counted}
    soft = {result.environment.soft_hash for case in cases if case.values for result in case.counted if result.status is Status.OK}
    if len(hard) > 1:
        found.append(Doubt(len(hard), "different hard environments in one run: their rows must not be compared"))
    if len(soft) > 1:
        found.append(Doubt(len(soft), "software environments in one run; the differences are listed under Environment"))
    few = sum(case.values[TIME].n < FEW_TRIALS for case in timed)
    if few:
        found.append(Doubt(few, f"of {len(timed)} timed cases rest on fewer than {FEW_TRIALS} trials: their range says little"))
    wide = [case for case in timed if (case.values[TIME].relative_range or 0) > WIDE_RANGE]
    if wide:
        worst = max(wide, key=lambda case: case.values[TIME].relative_range or 0)
        worst_text = units.percent(worst.values[TIME].relative_range or 0)
        found.append(
            Doubt(
                len(wide),
                f"of {len(timed)} timed cases range over more than {units.percent(WIDE_RANGE)} of their median"
                f" between trials (widest: {worst.label}, {worst_text})",
            )
        )
    wandered = [case for case in timed if clock_wandered(case)]
    if wandered:
        found.append(
            Doubt(
                len(wandered),
                f"of {len(timed)} timed cases: the clock wandered, the kernel did not (trials differ by more than"
                f" {units.percent(CLOCK_WANDERED_TIME)} in time and by at most {units.percent(CLOCK_WANDERED_CYCLES)} in cycles)",
            )
        )
    above = [case for case in timed if case.rates.above_measured]
    if above:
        most = max(above, key=_highest_share)
        found.append(
            Doubt(
                len(above),
                f"of {len(timed)} timed cases lie above a ceiling that this run measured"
                f" (highest: {most.label}, {units.percent(_highest_share(most))})",
            )
        )
    partly = sum(len(case.counts) > 1 for case in cases)
    if partly:
        found.append(Doubt(partly, "cases ended differently from trial to trial"))
    short = sum(1 for r in trials if (m := r.measurement(TIME)) is not None and len(m.samples) < FEW_SAMPLES)
    if short:
        found.append(Doubt(short, f"of {len(trials)} timed trials hold fewer than {FEW_SAMPLES} samples"))
    found += _flags(trials)
    unproved = sum(case.proof is None or case.proof.verdict != "proved" for case in timed)
    if unproved:
        found.append(Doubt(unproved, f"of {len(timed)} timed cases have no proof that the requested code ran"))
    aside = sum(len(case.set_aside) for case in cases)
    if aside:
        found.append(Doubt(aside, "rows are set aside (excluded or superseded); they are in the table and in no value"))
    return found


def _highest_share(case: CaseSummary) -> float:
    return max((rate.measured.value for rate in case.rates.above_measured if rate.measured), default=0.0)


QUESTIONS: tuple[tuple[str, str], ...] = ((TIME, "Fastest measured"), (PEAK, "Lowest peak memory measured"))
"""What the top answers, in order: a metric and the words for having the lowest median of it."""
