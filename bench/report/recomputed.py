"""The numbers of a page, computed again from the data inside it: what each marked element may say.

Spreads, ratios and counts are made here of the trial medians; verdicts by the rules of `against.py`, exponents and crossings by the ways
that the page has for them, from rows as an import makes them of the same data.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import permutations, product

from bench.judge.thresholds import BUSY_SHARE, CYCLES, RULES, TIME
from bench.judge.verdict import READER_WORDS
from bench.records import FIXED_AXES, Case, Check, Result, Run, Status
from bench.report import stated, units
from bench.report.against import OTHER, SYMBOLS, Against, Pair, judge, judged
from bench.report.answers import ratio_words, value_words
from bench.report.crossover import crossings
from bench.report.findings import TOLERANCE_WORDS
from bench.report.layout import Section, sections
from bench.report.rates import facet_exponents, growth_lines
from bench.report.stated import ADVICE, SENTENCE, TRIAL
from bench.report.statements import Statement
from bench.report.summary import Spread, gather, spread
from bench.report.views import advice_of
from bench.store.importers.report import records
from bench.store.page_data import NoPage, PageData, PageTrial

ABSENT = frozenset(("", "–", "withheld", "no time"))
"""How a page says that there is no number."""
OTHER_SYMBOL = "≠"
SUGGESTED = 6
"""Numbers that are named in the place of one that a sentence may not tell."""
_JUDGED = frozenset((stated.VERDICT, stated.INTERVAL, stated.JUDGED, stated.WITH_SYMBOL))
_OF_SEVERAL = frozenset((stated.MEAN, stated.LOWEST, stated.HIGHEST, stated.COUNT, stated.COUNT_OF_ALL))
_RATIO = re.compile(r"(?<![\w.])(?:> )?\d[\d.]*(?:e[+-]?\d+)?×")
_INTERVAL = re.compile(r"\((?P<token>(?:> )?\d[\d.]*(?:e[+-]?\d+)?–(?:> )?\d[\d.]*(?:e[+-]?\d+)?)\)")
_QUANTITY = re.compile(r"(?<![\w.])\d[\d.]*(?:e[+-]?\d+)? (?:s|ms|µs|ns|B|KiB|MiB|GiB|TiB) \((?:[^()]*n \d+[^()]*)\)")


class Recomputed:
    """The numbers of a page, computed from its data."""

    def __init__(self, page: PageData) -> None:
        self._page = page
        self._trials: dict[int, list[PageTrial]] = {}
        for trial in page.trials:
            self._trials.setdefault(trial.case, []).append(trial)
        self._spreads: dict[tuple[int, str], Spread | None] = {}
        self._verdicts: dict[str, dict[int, Against]] = {}
        self._told: dict[tuple[int, str], _Lines] = {}
        self._records: tuple[list[Run], list[Result]] | None = None
        self._names = _names([case.case for case in page.cases])

    def with_numbers(self) -> list[int]:
        """Positions of the cases with a value."""
        return [place for place in range(len(self._page.cases)) if any(self.spread(place, name) for name in self._page.metrics)]

    def name(self, place: int) -> str:
        """A case in words, with its run where there are several."""
        case = self._page.cases[place]
        run = f", run {self._page.runs[case.run].id}" if len(self._page.runs) > 1 else ""
        return self._names[place] + (f" [{case.arm}]" if case.arm != "-" else "") + run

    def where(self, statement: Statement) -> str:
        """What a statement is of, in words."""
        if not statement.cases:
            return "a row that has no numbers"
        if statement.kind in (SENTENCE, ADVICE):
            return f"a sentence about {self.name(statement.cases[0])}"
        metric = self._metric(statement)
        if statement.kind == TRIAL:
            trial = self._page.trials[self._place(statement.cases[0], self._page.trials)]
            return f"{metric} of trial {trial.index} of {self.name(trial.case)}"
        return f"{metric} of {self.name(self._place(statement.cases[0], self._page.cases))}"

    def words(self, statement: Statement) -> tuple[str, ...]:
        """What the element may say; of a sentence it is its own text where all that it says follows."""
        kind, metric = statement.kind, self._metric(statement)
        if not statement.cases:
            # Of a trial that was set aside a page tells how it ended.
            return (*ABSENT, *map(_word, Status)) if kind == TRIAL else tuple(ABSENT)
        if kind == SENTENCE:
            return self._sentence(statement)
        if kind == TRIAL:
            trial = self._page.trials[self._place(statement.cases[0], self._page.trials)]
            value = trial.medians.get(metric)
            if value is None:
                # A trial without a number says how it ended.
                return (*ABSENT, _word(trial.status))
            return (_text(value, metric),)
        if kind == stated.LINE:
            follows = self._lines(self._place(statement.cases[0], self._page.cases)).hold(statement.text)
            return (statement.text,) if follows else ("none of the lines that follow from the data",)
        if kind == ADVICE:
            told = self._lines(self._place(statement.cases[0], self._page.cases)).advice
            return (statement.text,) if statement.text in told else (f"none of: {' | '.join(sorted(told))}",)
        if kind in _OF_SEVERAL:
            return self._of_several(kind, [self._place(one, self._page.cases) for one in statement.cases], metric)
        place = self._place(statement.cases[0], self._page.cases)
        if kind in _JUDGED:
            return self._judged(kind, place, metric)
        own = self.spread(place, metric)
        if own is None:
            return tuple(ABSENT)
        if kind in (stated.RATIO, stated.WIDEST_RATIO, stated.MEDIAN_AND_RATIO):
            base = (
                self._place(statement.cases[1], self._page.cases) if len(statement.cases) > 1 else self._page.cases[place].baseline
            )
            other = None if base is None else self.spread(base, metric)
            ratio = own.ratio_to(other) if other else None
            if kind == stated.MEDIAN_AND_RATIO:
                return (" ".join((_text(own.median, metric), *((units.ratio(ratio.median),) if ratio else ()))),)
            if ratio is None:
                return tuple(ABSENT)
            return (units.ratio(ratio.median) if kind == stated.RATIO else ratio_words(ratio),)
        between = units.range_in_unit(own.low, own.high, units.metric_unit(metric))
        if kind == stated.RANGE:
            return (_flat(between),) if own.n > 1 else tuple(ABSENT)
        if kind == stated.RANGE_AND_N:
            return (_flat(f"{between}, n {own.n}"),) if own.n > 1 else ("n 1",)
        return (_flat(value_words(own, metric)) if kind == stated.VALUE else _text(own.median, metric),)

    def spread(self, place: int, metric: str) -> Spread | None:
        """Of a case that is ok, over its trials that are."""
        key = place, metric
        if key not in self._spreads:
            case = self._page.cases[place]
            rows = self._trials.get(place, ()) if case.outcome == Status.OK else ()
            values = [row.medians[metric] for row in rows if row.status is Status.OK and metric in row.medians]
            self._spreads[key] = spread(values) if values else None
        return self._spreads[key]

    def against(self, place: int, metric: str) -> Against | None:
        """The verdict of a case against its baseline, settled among all of its section; None for a baseline, and where there is none."""
        if metric not in RULES:
            return None
        if metric not in self._verdicts:
            self._verdicts[metric] = self._settled(metric)
        return self._verdicts[metric].get(place)

    def _settled(self, metric: str) -> dict[int, Against]:
        groups: dict[tuple[int, str], list[int]] = {}
        for place, case in enumerate(self._page.cases):
            # Where the baseline was not run at this size, there is a verdict as well: that nobody can tell.
            if case.compared:
                groups.setdefault((case.run, case.case.workload), []).append(place)
        found: dict[int, Against] = {}
        for places in groups.values():
            found |= zip(
                places, judge([self._pair(place, self._page.cases[place].baseline, metric) for place in places]), strict=True
            )
        return found

    def _pair(self, place: int, base: int | None, metric: str) -> Pair:
        case = self._page.cases[place]
        timed = metric == TIME
        return Pair(
            metric,
            case.case.workload,
            {} if base is None else self._by_gpu(base, metric),
            self._by_gpu(place, metric),
            "" if base is None else self._page.cases[base].outcome,
            case.outcome,
            (self._by_gpu(base, CYCLES) or None) if timed and base is not None else None,
            (self._by_gpu(place, CYCLES) or None) if timed else None,
            crowded=timed and case.case.device == "cpu" and any(self._crowded(one) for one in (place, base) if one is not None),
            other=case.other,
        )

    def _by_gpu(self, place: int, metric: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for row in self._trials.get(place, ()):
            if row.status is Status.OK and metric in row.medians:
                found.setdefault(row.gpu or "", []).append(row.medians[metric])
        return found

    def _crowded(self, place: int) -> bool:
        rows = self._trials.get(place, [])
        return sum(row.busy_share is not None and row.busy_share >= BUSY_SHARE for row in rows) > len(rows) / 2

    def _judged(self, kind: str, place: int, metric: str) -> tuple[str, ...]:
        found = self.against(place, metric)
        if found is None:
            return (*ABSENT, "baseline")
        said = {
            stated.VERDICT: found.word,
            stated.INTERVAL: found.numbers,
            stated.JUDGED: found.text,
            stated.WITH_SYMBOL: f"{SYMBOLS.get(found.word, OTHER_SYMBOL)} {found.text}",
        }[kind]
        return (said,) if said else tuple(ABSENT)

    def _of_several(self, kind: str, places: Sequence[int], metric: str) -> tuple[str, ...]:
        """Means, extremes and counts over the verdicts of several cases."""
        if kind == stated.COUNT_OF_ALL:
            one = self._page.cases[places[0]]
            places = [
                place
                for place, case in enumerate(self._page.cases)
                if (case.run, case.case.workload) == (one.run, one.case.workload)
            ]
        found = [entry for place in places if (entry := self.against(place, metric)) is not None]
        if kind in (stated.COUNT, stated.COUNT_OF_ALL):
            counts = Counter(entry.word for entry in found)
            return tuple(f"{counts[word]} {word}" for word in (*READER_WORDS, OTHER))
        ratios = [entry.ratio for entry in found if entry.ratio is not None and entry.ratio > 0]
        if not ratios:
            return tuple(ABSENT)
        if kind == stated.MEAN:
            return (units.ratio(math.exp(math.fsum(map(math.log, ratios)) / len(ratios))),)
        return (units.ratio(min(ratios) if kind == stated.LOWEST else max(ratios)),)

    def _sentence(self, statement: Statement) -> tuple[str, ...]:
        """The text where all of its ratios, intervals and values are of its cases; else what the first that is none may be."""
        places = [self._place(place, self._page.cases) for place in statement.cases]
        values: set[str] = set()
        ratios: set[str] = set()
        intervals: set[str] = set()
        for metric in self._page.metrics:
            values |= {_flat(value_words(one, metric)) for place in places if (one := self.spread(place, metric))}
            for first, second in permutations(places, 2):
                self._between(first, second, metric, ratios, intervals)
        for pattern, known in ((_RATIO, ratios), (_INTERVAL, intervals), (_QUANTITY, values)):
            for token in pattern.findall(statement.text):
                if token not in known:
                    return (f"not {token}, but one of {', '.join(sorted(known)[:SUGGESTED])}",)
        return (statement.text,)

    def _between(self, place: int, base: int, metric: str, ratios: set[str], intervals: set[str]) -> None:
        """Adds what may be said of one case beside another."""
        own, other = self.spread(place, metric), self.spread(base, metric)
        if own is None or other is None:
            return
        widest = own.ratio_to(other)
        if widest is not None:
            ratios.add(units.ratio(widest.median))
            intervals.add(f"{units.digits(widest.low)}–{units.digits(widest.high)}")
        if metric not in RULES:
            return
        entry = judge([self._pair(place, base, metric)])[0]
        if entry.ratio:
            ratios |= {units.ratio(entry.ratio), units.ratio(1 / entry.ratio)}
        if entry.low and entry.high:
            for low, high in ((entry.low, entry.high), (1 / entry.high, 1 / entry.low)):
                intervals.add("–".join(units.ratio(value).removesuffix("×") for value in (low, high)))

    def _lines(self, place: int) -> _Lines:
        """The exponents and crossings of the run and workload of a case, by the report's own way from the rows that the data tell."""
        case = self._page.cases[place]
        key = case.run, case.case.workload
        if key not in self._told:
            if self._records is None:
                self._records = records(self._page)
            run = self._records[0][case.run]
            apart = {(one.case.key, one.arm) for one in self._page.cases if one.other and one.run == case.run}
            found = sections(run, gather(run, _set_apart(self._records[1], run, apart))[0])
            self._told[key] = _lines_of([section for section in found if section.workload == case.case.workload])
        return self._told[key]

    def _metric(self, statement: Statement) -> str:
        return self._page.metrics[self._place(statement.metric, self._page.metrics)]

    @staticmethod
    def _place(place: int, of: Sequence[object]) -> int:
        if place >= len(of):
            raise NoPage(f"the page speaks of number {place}, and its data have {len(of)}")
        return place


@dataclass(frozen=True, slots=True)
class _Lines:
    """What may be said of a workload in a line of its own."""

    crossings: frozenset[str]
    advice: frozenset[str]
    exponents: Mapping[str, tuple[str, ...]]
    """What grows and how, to the subjects of which that is so; a chart names those that it shows."""

    def hold(self, text: str) -> bool:
        """Whether the line follows."""
        return text in self.crossings or any(
            text.endswith(f" {words}") and _are_some(text.removesuffix(f" {words}"), names)
            for words, names in self.exponents.items()
        )


def _are_some(text: str, names: Sequence[str]) -> bool:
    """Whether `text` is some of `names` in their order, with commas between; a name may hold one."""
    rest = f"{text}, "
    for name in names:
        rest = rest.removeprefix(f"{name}, ")
    return not rest


def _set_apart(rows: Sequence[Result], run: Run, apart: Set[tuple[str, str]]) -> list[Result]:
    """The rows with a declared tolerance, which the page does not repeat, where that makes a panel's subjects stand apart as the page says.

    Where it says so of nobody in a panel all get one: what all do sets nobody apart.
    """
    own = [row for row in rows if row.run_id == run.id]
    tolerant = set(apart)
    for facet in (facet for section in sections(run, gather(run, own)[0]) for facet in section.facets):
        keys = {(cell.case.key, cell.arm) for cell in facet.cells.values()}
        if not keys & apart:
            tolerant |= keys
    declared = (Check("output", "small", None, None, None, True, TOLERANCE_WORDS),)
    return [replace(row, checks=declared) if (row.case.key, row.trial.arm) in tolerant else row for row in own]


def _lines_of(laid_out: Sequence[Section]) -> _Lines:
    exponents: dict[str, tuple[str, ...]] = {}
    crossed: set[str] = set()
    for section, facet in [(one, facet) for one in laid_out for facet in one.facets]:
        found = facet_exponents(facet, section.swept)
        for label, metric in product(facet.labels, (TIME, facet.memory)):
            for name, what, words in growth_lines(found, [label], metric, section.swept):
                key = _flat(f"{what} {words}")
                exponents[key] = (*exponents.get(key, ()), _flat(name))
        if section.swept:
            crossed |= {_flat(crossing.words(section.swept)) for crossing in crossings(facet)}
    advised = [one for section in laid_out for one in advice_of(section, judged(section))]
    told = frozenset(_flat(f"{one.verb[:1].upper()}{one.verb[1:]} {one.subject} , {one.numbers}") for one in advised)
    return _Lines(frozenset(crossed), told, exponents)


def _flat(text: str) -> str:
    """As a reader sees it, spaces joined."""
    return " ".join(text.split())


def _text(value: float, metric: str) -> str:
    return _flat(units.in_unit(value, units.metric_unit(metric)))


def _word(status: Status) -> str:
    return "OOM" if status is Status.OOM else str(status)


def _names(cases: Sequence[Case]) -> list[str]:
    """Each case by its subject and the axes that differ between them."""
    axes = ("workload", *FIXED_AXES, *dict.fromkeys(name for case in cases for name in case.params))
    differ = [axis for axis in axes if len({repr(_axis(case, axis)) for case in cases}) > 1]
    return [" ".join((case.subject_label, *_told(case, differ))) for case in cases]


def _told(case: Case, axes: Iterable[str]) -> Iterable[str]:
    return (f"{axis}={value}" for axis in axes if (value := _axis(case, axis)) is not None)


def _axis(case: Case, axis: str) -> object:
    try:
        return case.axis_value(axis)
    except KeyError:
        return None
