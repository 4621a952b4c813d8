"""What techniques buy on top of each other and alone: the ladder of a suite, step by step, and what is lost without each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.judge.verdict import BETTER, WORSE
from bench.report.answers.against import SYMBOLS, Against, judge, pair_of
from bench.report.drawing.figures import case_word
from bench.report.numbers import units
from bench.report.numbers.findings import otherwise
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.summary import TIME, CaseSummary
from bench.report.views.tables import Cell, Head, Table
from bench.suite.arms import Place, arms_of

LADDER, LEAVE_ONE_OUT = "ladder", "leave_one_out"
Rung = tuple[str, CaseSummary]


def step_tables(section: Section, facet: Facet, row_ids: Mapping[tuple[str, str], str]) -> list[Table]:
    """The ladder and what each part is worth, at the largest size at which most of them were timed; none where the suite has neither."""
    tables = []
    for key, make in ((LADDER, _ladder), (LEAVE_ONE_OUT, _left_out)):
        places = _places(section, key)
        x, rungs = _at_largest(facet, places)
        if len(rungs) > 1:
            at = f" at {section.swept.replace('_', ' ')} {x}" if section.swept and x is not None else ""
            tables.append(make(rungs, facet.memory, at, row_ids))
    return tables


def _places(section: Section, key: str) -> list[tuple[Place, Mapping[str, str]]]:
    """The arms of a ladder or of leave-one-out, in the suite's order."""
    places = [(place, arm.subject) for arm in arms_of(section.run.suite_data) for place in arm.places if place.key == key]
    return sorted(places, key=lambda entry: entry[0].position)


def _at_largest(facet: Facet, places: Sequence[tuple[Place, Mapping[str, str]]]) -> tuple[float | int | None, list[Rung]]:
    best: tuple[float | int | None, list[Rung]] = (None, [])
    most = 0
    for x in facet.xs:
        cells = {tuple(sorted(cell.case.subject.items())): cell for (_, at), cell in facet.cells.items() if at == x}
        rungs = [
            (_name(place), cell) for place, subject in places if (cell := cells.get(tuple(sorted(subject.items())))) is not None
        ]
        timed = sum(TIME in cell.values for _, cell in rungs)
        if timed and timed >= most:
            best, most = (x, rungs), timed
    return best


def _name(place: Place) -> str:
    if place.key == LEAVE_ONE_OUT:
        return "all together" if place.left_out is None else f"without {place.left_out}"
    return f"+ {place.parts[-1]}" if place.parts else "as it is"


def _ladder(rungs: Sequence[Rung], memory: str, at: str, row_ids: Mapping[tuple[str, str], str]) -> Table:
    before = [None, *(cell for _, cell in rungs)]
    lines = _lines(rungs, before, rungs[0][1], memory, row_ids)
    heads = (
        Head("step"), Head("time"), Head("× of the step before", "with the 99 % interval, where there are trials enough"),
        Head("× of the first"), Head("peak"), Head("× of the step before"), Head("× of the first"),
    )  # fmt: skip
    caption = "Each step keeps all before it. Bars begin at zero; shorter is better."
    return Table(f"The ladder: what each step buys on top of those before{at}", caption, heads, lines, kind="steps")


def _left_out(rungs: Sequence[Rung], memory: str, at: str, row_ids: Mapping[tuple[str, str], str]) -> Table:
    first = rungs[0][1]
    before = [None, *(first for _ in rungs[1:])]
    lines = tuple((*line[:3], *line[4:6]) for line in _lines(rungs, before, first, memory, row_ids))
    heads = (
        Head("arm"), Head("time"), Head("× of all together", "above 1: the part that is left out saves time"), Head("peak"),
        Head("× of all together"),
    )  # fmt: skip
    caption = "All parts together, then all but one: what that one alone is worth. Bars begin at zero; shorter is better."
    return Table(f"Leave one out{at}", caption, heads, lines, kind="steps")


def _lines(
    rungs: Sequence[Rung],
    before: Sequence[CaseSummary | None],
    first: CaseSummary,
    memory: str,
    row_ids: Mapping[tuple[str, str], str],
) -> tuple[tuple[Cell, ...], ...]:
    """Name; time, × of the one before, × of the first; the same of memory."""
    places = [place for place in range(1, len(rungs)) if before[place] is not None]
    verdicts: dict[str, dict[int, Against]] = {}
    others = [(base := before[place]) is not None and otherwise(rungs[place][1], base) for place in places]
    for metric in (TIME, memory):
        beside = zip(places, others, strict=True)
        pairs = [pair_of(rungs[place][1], before[place], metric, other=other) for place, other in beside]
        verdicts[metric] = dict(zip(places, judge(pairs), strict=True))
    lines = []
    for place, (name, cell) in enumerate(rungs):
        line = [Cell(name, link=row_ids.get((cell.case.key, cell.arm)))]
        for metric in (TIME, memory):
            longest = max((c.values[metric].median for _, c in rungs if metric in c.values), default=0.0)
            line += [_value(cell, metric, longest), _beside(verdicts[metric].get(place)), _whole(cell, first, metric)]
        lines.append(tuple(line))
    return tuple(lines)


def _value(cell: CaseSummary, metric: str, longest: float) -> Cell:
    value = cell.values.get(metric)
    if value is None or not cell.usable:
        return Cell("no time" if cell.usable else case_word(cell), tint="word")
    share = value.median / longest if longest > 0 else None
    return Cell(units.in_unit(value.median, units.metric_unit(metric)), f"n {value.n}" if metric == TIME else "", share=share)


def _beside(against: Against | None) -> Cell:
    if against is None or against.ratio is None:
        return Cell("–", tint="none", why=against.reason if against else "")
    tint = {BETTER: "faster", WORSE: "slower"}.get(against.word, "")
    return Cell(against.numbers, f"{SYMBOLS.get(against.word, '')} {against.word}".strip(), tint, why=against.reason)


def _whole(cell: CaseSummary, first: CaseSummary, metric: str) -> Cell:
    own, base = cell.values.get(metric), first.values.get(metric)
    if own is None or base is None or base.median <= 0 or cell is first:
        return Cell("–", tint="none")
    return Cell(units.ratio(own.median / base.median))
