"""The first sentences of a page: what to use at which sizes, judged, with what it costs, and the settings to copy.

A sentence recommends what has the lowest median only where the judged interval says that it is faster (or smaller) than the baseline, or,
where a suite has no baseline, than the next. Else it says to stay, or that nothing can be told. Readings (answers.py) tell the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.thresholds import FEWEST
from bench.judge.verdict import BETTER, CANNOT_TELL, SAME
from bench.records import Status
from bench.report.answers.against import Against, Judged, judge, pair_of
from bench.report.answers.readings import ALONE, ALONE_ALIKE, SAME_WITHIN, Size, span_text
from bench.report.answers.settings import Setting, setting
from bench.report.numbers import units
from bench.report.numbers.findings import error_words, other_numbers
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.summary import TIME, CaseSummary

ALIKE = 0.005
"""Medians of memory nearer to each other are told as the same."""
LEAST = 0.01
"""Smaller shares of the memory are told as that."""
WORTH = 0.95
"""A subject is recommended for its memory where it needs less than this share of the baseline's."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence, in parts: where, what to do, which subject, and the numbers."""

    where: str
    verb: str
    """`use`, `stay with`, `to save memory use`, `perhaps`, or nothing."""
    subject: str
    numbers: str
    """`1.90× faster than sdpa_flash (1.85–1.95), same memory`."""
    doubt: str | None
    setting: Setting | None
    settled: bool
    """Whether the judged interval says so."""
    about: tuple[CaseSummary, ...] = ()
    """The cases whose numbers it tells, its own first."""

    @property
    def text(self) -> str:
        """The whole sentence."""
        doubt = f" ({self.doubt})" if self.doubt else ""
        return f"{self.where}: {self.verb} {self.subject}, {self.numbers}{doubt}"


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is said at one size. Neighbours with equal `label`, `kind` and `ties` are one sentence."""

    label: str
    kind: str
    ties: tuple[str, ...]
    cell: CaseSummary
    beside: CaseSummary | None
    time: Against | None
    memory: Against | None


FASTER, STAY, UNSETTLED, SMALLER, ONLY, TIMED, APART = "faster", "stay", "unsettled", "smaller", "only", "timed", "apart"
_VERBS = {
    FASTER: "use", STAY: "stay with", UNSETTLED: "perhaps", SMALLER: "to save memory use", ONLY: "only",
    TIMED: "only", APART: "where other numbers will do, use",
}  # fmt: skip


def advice(section: Section, judged: Judged | None) -> list[Advice]:
    """For each panel what is fastest, then what saves memory beyond it; empty where nothing was measured.

    `judged` is what `against.judged` says of the section.
    """
    found: list[Advice] = []
    for facet in section.facets:
        others = other_numbers(facet)
        alike = [label for label in facet.labels if label not in others]
        fast = [(x, _fastest(section, facet, alike, x, judged)) for x in facet.xs]
        found += _sentences(section, facet, fast)
        chosen = {x: choice.label for x, choice in fast if choice and choice.kind != UNSETTLED}
        small = [(x, _smallest(section, facet, alike, x, judged, chosen.get(x))) for x in facet.xs]
        found += _sentences(section, facet, small)
        if others:
            found += _sentences(section, facet, [(x, _apart(facet, sorted(others), x, judged)) for x in facet.xs])
    return found


def _cells(facet: Facet, labels: Sequence[str], x: Size, metric: str) -> list[CaseSummary]:
    cells = [cell for label in labels if (cell := facet.cells.get((label, x))) is not None]
    return [cell for cell in cells if cell.status is Status.OK and metric in cell.values]


def _fastest(section: Section, facet: Facet, alike: Sequence[str], x: Size, judged: Judged | None) -> _Choice | None:
    cells = sorted(_cells(facet, alike, x, TIME), key=lambda cell: cell.values[TIME].median)
    if not cells:
        return None
    best = cells[0]
    base = facet.cells.get((facet.baseline, x)) if facet.baseline else None
    if base is None or base.status is not Status.OK or TIME not in base.values:
        if len(cells) == 1:
            return _Choice(best.label, _alone(facet, alike, x), (), best, None, None, None)
        return _beside(section, best, cells[1])
    if best.label == base.label:
        others = cells[1:]
        if not others:
            return _Choice(best.label, _alone(facet, alike, x), (), best, None, None, None)
        return _Choice(best.label, STAY, _ties(best, others), best, others[0], None, None)
    if judged is None:
        return None
    # Where the lowest median is not shown to be lower, another one may be.
    shown = [cell for cell in cells if (entry := judged.of(cell, TIME)) is not None and entry.word == BETTER]
    best = shown[0] if shown else best
    time, memory = judged.of(best, TIME), judged.of(best, section.memory)
    if time is not None and time.word == BETTER:
        ties = _ties(best, [cell for cell in cells if cell.label not in (best.label, base.label)])
        return _Choice(best.label, FASTER, ties, best, base, time, memory)
    if time is not None and (time.word == SAME or _even(time)):
        return _Choice(base.label, STAY, (best.label,), base, best, None if time.word == SAME else time, None)
    return _Choice(best.label, UNSETTLED, (), best, base, time, memory)


def _alone(facet: Facet, alike: Sequence[str], x: Size) -> str:
    """Whether the only one with a time is the only one with numbers: times of others may be withheld."""
    cells = [cell for label in alike if (cell := facet.cells.get((label, x))) is not None]
    return ONLY if sum(cell.usable for cell in cells) == 1 else TIMED


def _even(time: Against) -> bool:
    """Whether nobody can tell which is faster, and the medians differ by less than what is printed."""
    return time.word == CANNOT_TELL and time.ratio is not None and _prints_as_one(time.ratio)


def _prints_as_one(ratio: float) -> bool:
    return units.ratio(1 / ratio if 0 < ratio < 1 else ratio) == units.ratio(1.0)


def _beside(section: Section, best: CaseSummary, following: CaseSummary) -> _Choice:
    """A choice without a baseline: against the next."""
    time, memory = (judge([pair_of(best, following, metric, other=False)])[0] for metric in (TIME, section.memory))
    kind = FASTER if time.word == BETTER else UNSETTLED
    return _Choice(best.label, kind, (), best, following, time, memory)


def _ties(best: CaseSummary, others: Sequence[CaseSummary]) -> tuple[str, ...]:
    """Those whose time is not shown to be another one."""
    verdicts = judge([pair_of(cell, best, TIME, other=False) for cell in others])
    near = [
        cell.label
        for cell, verdict in zip(others, verdicts, strict=True)
        if verdict.word in (SAME, CANNOT_TELL, BETTER) and verdict.low is not None
    ]
    return tuple(near)


def _smallest(
    section: Section, facet: Facet, alike: Sequence[str], x: Size, judged: Judged | None, fastest: str | None
) -> _Choice | None:
    base = facet.cells.get((facet.baseline, x)) if facet.baseline else None
    cells = [cell for cell in _cells(facet, alike, x, section.memory) if TIME in cell.values]
    if judged is None or base is None or section.memory not in base.values or not cells:
        return None
    least = min(cell.values[section.memory].median for cell in cells)
    alike_in_memory = [cell for cell in cells if cell.values[section.memory].median <= least * (1 + ALIKE)]
    best = min(alike_in_memory, key=lambda cell: (cell.values[TIME].median, cell.values[section.memory].median))
    time, memory = judged.of(best, TIME), judged.of(best, section.memory)
    if best.label in (fastest, base.label) or memory is None or memory.word != BETTER or (memory.ratio or 1.0) > WORTH:
        return None
    quick = facet.cells.get((fastest, x)) if fastest else None
    if quick is not None and section.memory in quick.values:
        most = quick.values[section.memory].median * WORTH
        if best.values[section.memory].median > most:
            return None
    return _Choice(best.label, SMALLER, (), best, base, time, memory)


def _apart(facet: Facet, others: Sequence[str], x: Size, judged: Judged | None) -> _Choice | None:
    """The fastest of those that compute something else on purpose, where its median is below the baseline's."""
    base = facet.cells.get((facet.baseline, x)) if facet.baseline else None
    cells = _cells(facet, others, x, TIME)
    if judged is None or base is None or not cells:
        return None
    best = min(cells, key=lambda cell: cell.values[TIME].median)
    time = judged.of(best, TIME)
    if time is None or time.ratio is None or time.ratio >= 1 or _prints_as_one(time.ratio):
        return None
    return _Choice(best.label, APART, (), best, base, time, judged.of(best, facet.memory))


def _sentences(section: Section, facet: Facet, choices: Sequence[tuple[Size, _Choice | None]]) -> list[Advice]:
    spans: list[tuple[_Choice, list[Size]]] = []
    goes_on = False
    for x, choice in choices:
        last = spans[-1] if spans and goes_on else None
        goes_on = choice is not None
        if choice is None:
            continue
        if last and (last[0].label, last[0].kind, bool(last[0].ties)) == (choice.label, choice.kind, bool(choice.ties)):
            spans[-1] = (choice, [*last[1], x])
        else:
            spans.append((choice, [x]))
    return [_sentence(section, facet, choice, xs) for choice, xs in spans]


def _sentence(section: Section, facet: Facet, choice: _Choice, xs: Sequence[Size]) -> Advice:
    at = f" at {xs[-1]}" if len(xs) > 1 else ""
    return Advice(
        where=span_text(facet, section.swept, xs),
        verb=_VERBS[choice.kind],
        subject=choice.label,
        numbers=_numbers(choice, at, "that computes the same " if other_numbers(facet) else ""),
        doubt=_doubt(choice),
        setting=None if choice.kind in (STAY, ONLY, TIMED) else setting(choice.cell),
        settled=choice.kind in (FASTER, SMALLER, ONLY) or (choice.kind == STAY and _doubt(choice) is None),
        about=(choice.cell, *((choice.beside,) if choice.beside else ())),
    )


def _numbers(choice: _Choice, at: str, alike: str) -> str:
    beside = choice.beside
    if beside is None:
        return f"{ALONE_ALIKE if alike else ALONE} here" if choice.kind == ONLY else f"nothing else {alike}has a time here"
    if choice.kind == STAY:
        if choice.ties:
            return f"nothing is shown to be faster; {units.listed(choice.ties)} can't be told from it{at}"
        faster = "nothing is faster" if _doubt(choice) is None else "no median is lower"
        own = choice.cell.values[TIME].median
        return f"{faster}; the next, {beside.label}, {_longer(beside.values[TIME].median, own)}{at}"
    parts = [speed_words(choice.time, beside.label), memory_words(choice.memory)]
    if choice.kind == SMALLER:
        parts = [f"{memory_words(choice.memory)} of {beside.label}", speed_words(choice.time, None)]
    words = ", ".join(part for part in parts if part) + at
    errors = error_words(choice.cell, beside, always=choice.kind == APART)
    return (
        words + (f"; {errors}" if errors else "") + (f"; {units.listed(choice.ties)} can't be told from it" if choice.ties else "")
    )


def _longer(time_s: float, own_s: float) -> str:
    if own_s <= 0:
        return "takes longer than no time at all"
    ratio = time_s / own_s
    return f"is as fast within {units.percent(SAME_WITHIN)}" if _prints_as_one(ratio) else f"takes {units.ratio(ratio)} its time"


def _doubt(choice: _Choice) -> str | None:
    if choice.kind not in (STAY, UNSETTLED, APART) or choice.beside is None:
        return None
    few = min(choice.cell.values[TIME].n, choice.beside.values[TIME].n)
    if few < FEWEST:
        return f"{few} trial{'' if few == 1 else 's'}: an interval needs {FEWEST}"
    return f"can't tell: {choice.time.reason}" if choice.kind in (STAY, UNSETTLED) and choice.time is not None else None


def speed_words(against: Against | None, of: str | None) -> str:
    """`1.90× faster than sdpa_flash (1.85–1.95)`, `1.20× slower (1.19–1.21)`, `as fast`, `as fast in its median`."""
    if against is None or against.ratio is None:
        return ""
    than = f" than {of}" if of else ""
    if against.word == SAME:
        return f"as fast as {of}" if of else "as fast"
    faster = against.ratio < 1
    value, low, high = (
        (1 / against.ratio, _inverse(against.high), _inverse(against.low)) if faster else (against.ratio, against.low, against.high)
    )
    between = f" ({_short(low)}{units.EN_DASH}{_short(high)})" if low is not None and high is not None else ""
    if _even(against):
        return f"as fast{f' as {of}' if of else ''} in its median{between}"
    word = "faster" if faster else "slower"
    return f"{units.ratio(value)} {word}{than}{' in its median' if against.word == CANNOT_TELL else ''}{between}"


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None


def _short(value: float) -> str:
    return units.ratio(value).removesuffix("×")


def memory_words(against: Against | None) -> str:
    """`the same memory`, `0.541× the memory`."""
    if against is None or against.ratio is None:
        return ""
    if against.ratio < LEAST:
        return f"less than {units.percent(LEAST)} of the memory"
    return "the same memory" if abs(against.ratio - 1) < ALIKE else f"{units.ratio(against.ratio)} the memory"
