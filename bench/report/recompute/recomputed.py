"""The numbers of a page, computed again from the data inside it: what each marked element may say.

Spreads and verdicts are made here of the trial medians, the latter by the rules of `against.py`; all else is what `retold.py` says of the
page made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bench.judge.thresholds import BUSY_SHARE, CYCLES, RULES, TIME
from bench.records import FIXED_AXES, Case, Status
from bench.report.answers.against import SYMBOLS, Against, Pair, judge
from bench.report.numbers import units
from bench.report.numbers.findings import value_text
from bench.report.numbers.summary import Spread, belongs_to_canary, spread
from bench.report.recompute import stated
from bench.report.recompute.former import begins, today
from bench.report.recompute.retold import Part, Retold, follows, retold
from bench.report.recompute.stated import FACTS, KINDS, SAID, TRIAL
from bench.report.recompute.statements import Statement
from bench.report.recompute.told import Scope, closest, squeezed
from bench.report.views.rows import COLUMNS, LIGHT, column_words
from bench.store.page_data import NoPage, PageData, PageTrial

ABSENT = frozenset(("", "–", "withheld"))
"""How a page says that there is no number."""
OTHER_SYMBOL = "≠"
REACH = 40
"""Characters within which a line's next part is looked for after one that is not as it should be."""


@dataclass(frozen=True, slots=True)
class Held:
    """One thing that an element states, held against what follows from the data."""

    what: str
    """What it is counted among."""
    agrees: bool
    expected: str
    """What it would have to be."""
    case: int | None = None
    """Whose it is, where the statement is of several."""
    printed: str | None = None
    """What stands there instead, where that is not the whole statement."""


class Recomputed:
    """The numbers of a page, computed from its data."""

    def __init__(self, page: PageData) -> None:
        self._page = page
        self._trials: dict[int, list[PageTrial]] = {}
        for trial in page.trials:
            self._trials.setdefault(trial.case, []).append(trial)
        self._spreads: dict[tuple[int, str], Spread | None] = {}
        self._verdicts: dict[str, dict[int, Against]] = {}
        self._names = _names([case.case for case in page.cases])
        self._said: set[tuple[int, str]] = set()

    @cached_property
    def _retold(self) -> Retold:
        return retold(self._page)

    def to_be_shown(self) -> list[int]:
        """Positions of the cases with a value, which a page has to state; one that travels light states the machine's own in words."""
        light = self._page.depth == LIGHT
        return [
            place
            for place, case in enumerate(self._page.cases)
            if not (light and belongs_to_canary(self._page.runs[case.run], case.case))
            and any(self.spread(place, name) for name in self._page.metrics)
        ]

    def unsaid(self) -> list[str]:
        """What the page has to say and does not, in words, after all its statements were held."""
        return [
            f"{said.what}: {' '.join(said.text.split())}"
            for number, scope in enumerate(self._retold.scopes)
            for said in scope.said
            if said.required and (number, squeezed(said.text)) not in self._said
        ]

    def name(self, place: int) -> str:
        """A case in words, with its run where there are several."""
        case = self._page.cases[place]
        run = f", run {self._page.runs[case.run].id}" if len(self._page.runs) > 1 else ""
        return self._names[place] + (f" [{case.arm}]" if case.arm != "-" else "") + run

    def where(self, statement: Statement) -> str:
        """What a statement is of, in words."""
        if statement.kind == SAID:
            return self._scope(statement).where
        if not statement.cases:
            return "a row that has no numbers"
        if statement.kind in (TRIAL, stated.FACT):
            trial = self._page.trials[_place(statement.cases[0], self._page.trials)]
            what = self._metric(statement) if statement.kind == TRIAL else FACTS[_place(statement.metric, FACTS)]
            return f"{what} of trial {trial.index} of {self.name(trial.case)}"
        name = self.name(_place(statement.cases[0], self._page.cases))
        if statement.kind == stated.CELLS:
            return f"the line of {name}"
        if statement.kind == stated.COLUMN:
            return f"{COLUMNS[statement.metric] if statement.metric < len(COLUMNS) else 'size'} of {name}"
        return f"{self._metric(statement)} of {name}"

    def held(self, statement: Statement) -> list[Held]:
        """What the element states, one by one; nothing where that is not told by the data."""
        if statement.kind == SAID:
            return [self._hold_said(statement)]
        if statement.kind == stated.CELLS:
            return _in_order(statement.text, self._retold.lines.get(_place(statement.cases[0], self._page.cases), ()))
        if statement.kind in (stated.COLUMN, stated.FACT) and not statement.cases:
            return []
        if statement.kind == stated.FACT:
            return [self._hold_fact(statement)]
        expected = self._words(statement)
        agrees = squeezed(statement.text) in map(squeezed, expected)
        if statement.kind == stated.LINE:
            agrees = follows(squeezed(statement.text), self._retold.exponents.get(statement.cases[0], {}))
        return [Held(KINDS[statement.kind], agrees, " or ".join(filter(None, expected)) or "no number")]

    def _hold_said(self, statement: Statement) -> Held:
        scope = self._scope(statement)
        text = squeezed(today(statement.text))
        for said in scope.said:
            if squeezed(said.text) == text or begins(statement.text, said.text):
                self._said.add((statement.metric, squeezed(said.text)))
                return Held(said.what, True, statement.text)
        left = [said for said in scope.said if (statement.metric, squeezed(said.text)) not in self._said]
        nearest = closest(statement.text, [said.text for said in left])
        what = next((said.what for said in left if said.text == nearest), KINDS[SAID])
        if nearest:
            self._said.add((statement.metric, squeezed(nearest)))
        return Held(what, False, " ".join(nearest.split()) or "nothing of that kind")

    def _hold_fact(self, statement: Statement) -> Held:
        """What a trial's line says first in a column; of its result also how it ended, which the data do not tell."""
        trial = self._page.trials[_place(statement.cases[0], self._page.trials)]
        name = FACTS[_place(statement.metric, FACTS)]
        timed = TIME in trial.medians
        told = {"index": str(trial.index), "samples": str(trial.samples) if timed else "–", "result": trial.result}[name]
        text = squeezed(statement.text)
        arm = self._page.cases[trial.case].arm
        wanted = {told, f"{told}{squeezed(arm)}"} if name == "index" else {told}
        return Held(KINDS[stated.FACT], text.startswith(told) if name == "result" else text in wanted, told)

    def _words(self, statement: Statement) -> tuple[str, ...]:
        """What the element may say."""
        kind = statement.kind
        if not statement.cases:
            # Of a trial that was set aside a page tells how it ended.
            return (*ABSENT, *map(_word, Status)) if kind == TRIAL else tuple(ABSENT)
        if kind == TRIAL:
            metric = self._metric(statement)
            trial = self._page.trials[_place(statement.cases[0], self._page.trials)]
            value = trial.medians.get(metric)
            # A trial without a number says how it ended.
            return (*ABSENT, _word(trial.status)) if value is None else (_text(value, metric),)
        place = _place(statement.cases[0], self._page.cases)
        if kind == stated.LINE:
            return tuple(f"{', '.join(names)} {words}" for words, names in self._retold.exponents.get(place, {}).items())
        if kind == stated.COLUMN:
            row = self._retold.rows.get(place)
            if row is None:
                return ("no row",)
            if statement.metric >= len(COLUMNS):
                return (row.axes[_place(statement.metric - len(COLUMNS), row.axes)],)
            return (_outcome(column_words(row, COLUMNS[statement.metric])),)
        metric = self._metric(statement)
        if kind == stated.WITH_SYMBOL:
            found = self.against(place, metric)
            return (f"{SYMBOLS.get(found.word, OTHER_SYMBOL)} {found.text}",) if found else (*ABSENT, "baseline")
        own = self.spread(place, metric)
        if own is None:
            return tuple(ABSENT)
        if kind == stated.FINDING:
            return (value_text(own, metric),)
        if kind == stated.RANGE:
            return (units.range_in_unit(own.low, own.high, units.metric_unit(metric)),) if own.n > 1 else tuple(ABSENT)
        return (_text(own.median, metric),)

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

    def _metric(self, statement: Statement) -> str:
        return self._page.metrics[_place(statement.metric, self._page.metrics)]

    def _scope(self, statement: Statement) -> Scope:
        return self._retold.scopes[_place(statement.metric, self._retold.scopes)]


def _in_order(text: str, parts: Sequence[Part]) -> list[Held]:
    """A line held part by part. Where one is not as it should be, what stands in its place is passed over up to the next that is."""
    places = [place for place, character in enumerate(text) if not character.isspace()]
    rest, at = squeezed(text), 0
    found: list[Held] = []
    missed: int | None = None
    for case, what, words in parts:
        own = squeezed(words)
        place = rest.find(own, at, at + len(own) + REACH)
        agrees = place == at or (place > at and missed is not None)
        if place >= 0 and missed is not None:
            found[missed] = replace(found[missed], printed=text[places[at] : places[place - 1] + 1] if place > at else "")
        missed = len(found) if place < 0 else None
        found.append(Held(what, agrees, words, case, None if agrees else text[places[at] :][:REACH] if at < len(rest) else ""))
        at = at if place < 0 else place + len(own)
    if not parts or (at < len(rest) and all(held.agrees for held in found)):
        found.append(Held(KINDS[stated.CELLS], False, "nothing more", None, text[places[at] :] if places[at:] else text))
    return found


def _place(place: int, of: Sequence[object]) -> int:
    if place >= len(of):
        raise NoPage(f"the page speaks of number {place}, and its data have {len(of)}")
    return place


def _text(value: float, metric: str) -> str:
    return units.in_unit(value, units.metric_unit(metric))


def _outcome(word: str) -> str:
    return "OOM" if word == str(Status.OOM) else word


def _word(status: Status) -> str:
    return _outcome(str(status))


def _names(cases: Sequence[Case]) -> list[str]:
    """Each case by its subject and the axes that differ between them."""
    axes = ("workload", *FIXED_AXES, *dict.fromkeys(name for case in cases for name in case.params))
    differ = [axis for axis in axes if len({repr(case.axis_or_none(axis)) for case in cases}) > 1]
    return [" ".join((case.subject_label, *_told(case, differ))) for case in cases]


def _told(case: Case, axes: Iterable[str]) -> Iterable[str]:
    return (f"{axis}={value}" for axis in axes if (value := case.axis_or_none(axis)) is not None)
