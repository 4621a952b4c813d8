"""The sentences on top: which subject was the fastest measured at which sizes, which kept the least memory, and what that costs.

These are readings, not verdicts: they name the lowest median with its range over trials and n, and say where ranges overlap. Each has
two sides: the fastest says what it costs in memory, the least memory what it costs in time, and both whose error is larger. Subjects
that compute something else on purpose have sentences of their own: they are never simply faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.records import Status
from bench.report.numbers import units
from bench.report.numbers.findings import error_words, other_numbers, telling, title
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.rates import winner_words
from bench.report.numbers.summary import TIME, TOTAL, CaseSummary, Spread

KEPT = ("weight_bytes", "state_bytes")
"""What a technique keeps between calls, and is chosen for: asked for where subjects differ in it."""
OTHER_NUMBERS = "computes something else on purpose"
ALONE, ALONE_ALIKE = "nothing else has a number", "nothing else that computes the same has a number"
SAME_WITHIN = 0.005
"""Peaks, and times, nearer to each other are told as the same: `more memory: 1.00×` would say nothing."""
Size = float | int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One computed sentence: what was lowest over a span of sizes."""

    metric: str
    where: str
    """Facet and span, for example `forward · seq len 512–4096`."""
    subject: str
    detail: str
    """Value, range and n at the largest size of the span, the ratio to the baseline and to the best other, and the other side."""
    doubt: str | None
    """Why the order may be another one, or None."""
    aside: str | None = None
    """Why the subject stands apart from the others, or None."""
    cases: tuple[CaseSummary, ...] = ()
    """Those that its numbers are of."""

    @property
    def clauses(self) -> tuple[str, ...]:
        """The parts of the detail: the value, then what it is compared with."""
        return tuple(self.detail.split("; "))

    @property
    def text(self) -> str:
        """The sentence without where it holds: subject, what sets it apart, detail and doubt."""
        apart = f" ({self.aside})" if self.aside else ""
        doubt = f" ({self.doubt})" if self.doubt else ""
        return f"{self.subject}{apart}, {self.detail}{doubt}"


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


def questions(section: Section) -> tuple[tuple[str, str], ...]:
    """What the top answers, in order: a metric and the words for having the lowest median of it."""
    whole = ", all that is resident included" if section.memory == TOTAL else ""
    kept = [name for name in KEPT if any(name in telling(facet) for facet in section.facets)]
    smallest = ((name, f"Smallest {title(name)} measured") for name in kept)
    return ((TIME, "Fastest measured"), (section.memory, f"Least memory measured{whole}"), *smallest)


@dataclass(frozen=True, slots=True)
class _Contest:
    """The subjects of one panel that are compared with each other, by one metric."""

    section: Section
    facet: Facet
    metric: str
    labels: tuple[str, ...]
    rivals: tuple[str, ...]
    """Those whose best the lowest is held against, beside the baseline."""
    memory: str

    def measured(self, x: Size, labels: Sequence[str]) -> list[CaseSummary]:
        """Those with a value at `x`."""
        cells = [cell for label in labels if (cell := self.facet.cells.get((label, x))) is not None]
        return [cell for cell in cells if cell.status is Status.OK and self.metric in cell.values]

    def value(self, cell: CaseSummary) -> float:
        return cell.values[self.metric].median

    def best(self, x: Size) -> list[CaseSummary]:
        """Those with the lowest median at `x`: several only if exactly equal."""
        cells = self.measured(x, self.labels)
        least = min(map(self.value, cells), default=None)
        if least == 0 and len(cells) > 1 and all(self.value(cell) == 0 for cell in cells):
            return []  # a pass that keeps nothing, whoever makes it, has no winner
        return [cell for cell in cells if self.value(cell) == least]

    def untimed(self, x: Size, names: Sequence[str]) -> bool:
        """Whether others were measured at `x` whose times are withheld."""
        cells = [cell for label in self.rivals if label not in names and (cell := self.facet.cells.get((label, x))) is not None]
        return self.metric == TIME and any(cell.usable and TIME not in cell.values for cell in cells)

    @property
    def other_metric(self) -> str:
        return self.memory if self.metric == TIME else TIME


def readings(section: Section, metric: str) -> list[Reading]:
    """For each panel the subject with the lowest median, neighbouring sizes with the same answer joined.

    After it, where one that computes something else on purpose is lower still, that one.
    """
    found: list[Reading] = []
    for facet in section.facets:
        others = other_numbers(facet)
        alike = tuple(label for label in facet.labels if label not in others)
        memory = section.memory
        contest = _Contest(section, facet, metric, alike, alike, memory)
        found += [_reading(contest, xs, names) for names, xs in _spans(contest) if names]
        if others:
            apart = _Contest(section, facet, metric, tuple(label for label in facet.labels if label in others), alike, memory)
            found += [_reading(apart, xs, names, OTHER_NUMBERS) for names, xs in _spans(apart, below=contest) if names]
    return found


def _spans(contest: _Contest, below: _Contest | None = None) -> list[tuple[tuple[str, ...], list[Size]]]:
    """Neighbouring sizes with the same lowest; no name where nothing is lower than the best of `below`."""
    spans: list[tuple[tuple[str, ...], list[Size]]] = []
    for x in contest.facet.xs:
        best = contest.best(x)
        beaten = below.best(x) if below else []
        lower = not beaten or (bool(best) and contest.value(best[0]) < contest.value(beaten[0]))
        names = tuple(cell.label for cell in best) if lower else ()
        if names and spans and spans[-1][0] == names:
            spans[-1][1].append(x)
        else:
            spans.append((names, [x]))
    return spans


def _reading(contest: _Contest, xs: list[Size], names: tuple[str, ...], aside: str | None = None) -> Reading:
    metric = contest.metric
    best = contest.best(xs[-1])
    value = best[0].values[metric]
    at = f" at {xs[-1]}" if len(xs) > 1 else ""
    rate = winner_words(best[0]) if metric == TIME else ""
    rate = f" = {rate}" if rate else ""
    detail = f"{'each ' if len(names) > 1 else ''}{value_words(value, metric)}{at}{rate}{_beside(contest, xs[-1], names, aside)}"
    if aside and len(names) > 1:
        aside = aside.replace("computes", "compute", 1)
    return Reading(
        metric,
        span_text(contest.facet, contest.section.swept, xs),
        units.listed(names),
        detail,
        "; ".join(_doubts(contest, xs, names)) or None,
        aside,
        _cases(contest, xs[-1]),
    )


def _cases(contest: _Contest, x: Size) -> tuple[CaseSummary, ...]:
    """The lowest, and what it may be compared with."""
    baseline = contest.measured(x, (contest.facet.baseline,)) if contest.facet.baseline else []
    found = [*contest.best(x), *baseline, *contest.measured(x, contest.rivals)]
    return tuple({id(cell): cell for cell in found}.values())


def _beside(contest: _Contest, x: Size, names: tuple[str, ...], aside: str | None) -> str:
    """What the lowest is compared with: the baseline, and the best other where that is another one; then the other side of it."""
    facet, metric = contest.facet, contest.metric
    best = min(contest.best(x), key=lambda cell: _median(cell, contest.other_metric))
    value = best.values[metric]
    rivals = [cell for cell in contest.measured(x, contest.rivals) if cell.label not in names]
    following = min(rivals, key=contest.value, default=None)
    at_baseline = contest.measured(x, (facet.baseline,)) if facet.baseline and facet.baseline not in names else []
    if at_baseline and (ratio := value.ratio_to(at_baseline[0].values[metric])):
        against = at_baseline[0]
        text = f"; {ratio_words(ratio)} of the baseline {against.label}{_other_side(contest, best, against, aside)}"
        if following is not None and following is not against and contest.value(following) < contest.value(against):
            ratio = value.ratio_to(following.values[metric])
            beside = f"; {ratio_words(ratio)} of the best other, {following.label}" if ratio else ""
            text += beside and beside + _other_side(contest, best, following, aside, errors=not aside)
    elif following is not None and aside and (ratio := value.ratio_to(following.values[metric])):
        text = f"; {ratio_words(ratio)} of {following.label}{_other_side(contest, best, following, aside)}"
    elif following is not None and (ratio := following.values[metric].ratio_to(value)):
        text = f"; next is {following.label} with {ratio_words(ratio)}{_other_side(contest, following, best, None)}"
    else:
        text = _other_side(contest, best, None, aside)
    return _of_equals(contest, names, best) + text


def _median(cell: CaseSummary, metric: str) -> float:
    value = cell.values.get(metric)
    return float("inf") if value is None else value.median


def _of_equals(contest: _Contest, names: tuple[str, ...], best: CaseSummary) -> str:
    """Which of several with the same value is the better by the other metric."""
    metric = contest.other_metric
    if len(names) < 2 or metric not in best.values:
        return ""
    word = "fastest" if metric == TIME else "smallest"
    return f"; the {word} of them is {best.label} with {units.in_unit(best.values[metric].median, units.metric_unit(metric))}"


def _other_side(
    contest: _Contest, cell: CaseSummary, against: CaseSummary | None, aside: str | None, *, errors: bool = True
) -> str:
    """What `cell` costs or saves beside the metric, against the one that its ratio is taken to: ` – and slower: 1.15× (1.14–1.16)`."""
    words = ""
    metric = contest.other_metric
    own, other = cell.values.get(metric), against.values.get(metric) if against is not None else None
    ratio = own.ratio_to(other) if own and other else None
    if ratio and own and other:
        less, more, same = ("faster", "slower", "as fast") if metric == TIME else ("less memory", "more memory", "the same memory")
        if own.median == other.median:
            words = f", and {same}"
        elif metric == TIME and own.overlaps(other):
            words = f", and {same} within the ranges over trials: {ratio_words(ratio)}"
        elif abs(ratio.median - 1) < SAME_WITHIN:
            words = f", and {same} within {units.percent(SAME_WITHIN)}"
        elif ratio.median < 1:
            words = f", and {less}: {ratio_words(ratio)}"
        else:
            words = f" {units.EN_DASH} and {more}: {ratio_words(ratio)}"
    found = error_words(cell, against, always=aside is not None) if errors else ""
    return words + (f"; {found}" if found else "")


def _doubts(contest: _Contest, xs: Sequence[Size], names: tuple[str, ...]) -> list[str]:
    metric = contest.metric
    alone: list[Size] = []
    untimed: list[Size] = []
    near: dict[str, list[Size]] = {}
    elsewhere: dict[str, list[Size]] = {}
    for x in xs:
        first = contest.best(x)[0]
        rest = [cell for cell in contest.measured(x, contest.rivals) if cell.label not in names]
        if not rest and len(names) == 1:
            (untimed if contest.untimed(x, names) else alone).append(x)
        for cell in rest:
            if cell.values[metric].overlaps(first.values[metric]):
                near.setdefault(cell.label, []).append(x)
            if cell.gpus and first.gpus and cell.gpus != first.gpus:
                elsewhere.setdefault(cell.label, []).append(x)
    found = [f"its range overlaps that of {label}{_at(sizes, xs)}" for label, sizes in near.items()]
    found += [f"{label} ran on another physical GPU{_at(sizes, xs)}" for label, sizes in elsewhere.items()]
    alike = "that computes the same " if len(contest.rivals) < len(contest.facet.labels) else ""
    if alone:
        found.append(f"{ALONE_ALIKE if alike else ALONE}{_at(alone, xs) or ' here'}")
    if untimed:
        found.append(f"nothing else {alike}has a time{_at(untimed, xs) or ' here'}")
    if contest.best(xs[-1])[0].values[metric].n == 1 and metric == TIME and not alone and not untimed:
        found.append("one trial only, so the spread is not known")
    return found


def _at(xs: Sequence[Size], span: Sequence[Size]) -> str:
    """` at 128, 256`, or nothing where it holds for the whole span."""
    return "" if list(xs) == list(span) or xs[0] is None else f" at {', '.join(str(x) for x in xs)}"


def span_text(facet: Facet, swept: str | None, xs: Sequence[Size]) -> str:
    """`forward · seq len 512–4096`: a panel and a span of its sizes."""
    words = [facet.title] if facet.title else []
    if swept and xs[0] is not None:
        name = swept.replace("_", " ")
        words.append(f"{name} {xs[0]}" if len(xs) == 1 else f"{name} {xs[0]}{units.EN_DASH}{xs[-1]}")
    return " · ".join(words) or "the one point measured"
