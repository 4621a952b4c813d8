"""What a call and a token take in energy, and at each point who takes the least and the most of those that compute the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.machine.energy import STRETCHES
from bench.records import Json
from bench.report.numbers import units
from bench.report.numbers.findings import other_numbers, title
from bench.report.numbers.layout import Section, value_text
from bench.report.numbers.summary import TIME, CaseSummary, Spread
from bench.report.views.matrix import OTHER
from bench.report.views.tables import Cell, Head, Table

CALL, TOKEN = "energy_j", "energy_per_token_j"
ENERGY: units.Ladder = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"))
MOST_LINES = 64
MOST_SAID = 8
MAY_BE_OFF = 1 / STRETCHES
"""By which share the energy of one trial may be wrong."""
_LIMIT = "power_limit_w"
_CAPTION = (
    "By NVML's counter of the whole GPU, its memory included and the host not, over the time in which calls were timed: "
    "what the GPU used between calls is in it. Told of one GPU that nobody else computed on, where that time is ten steps of the counter "
    "or more and calls fill nine tenths of it. "
    f"A trial may be off by {units.percent(MAY_BE_OFF)}. Medians over trials. Bars begin at zero; shorter is better."
)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Those at one point that compute the same, or all there that compute something else on purpose, by what a call takes."""

    at: str
    """Nothing where the section has one point."""
    other: bool
    cases: tuple[CaseSummary, ...]
    """Two or more; the least first."""

    @property
    def least(self) -> CaseSummary:
        return self.cases[0]

    @property
    def most(self) -> CaseSummary:
        return self.cases[-1]

    @property
    def ratio(self) -> float | None:
        """The most over the least; None where that is nothing."""
        least = self.least.values[CALL].median
        return self.most.values[CALL].median / least if least > 0 else None

    @property
    def near(self) -> tuple[CaseSummary, ...]:
        """Those that may take as little as the first: ranges over trials touch, those of one trial widened by what it may be off."""
        _, high = _range(self.least.values[CALL])
        return tuple(case for case in self.cases[1:] if _range(case.values[CALL])[0] <= high)


def _range(value: Spread) -> tuple[float, float]:
    off = MAY_BE_OFF if value.n == 1 else 0.0
    return value.low * (1 - off), value.high * (1 + off)


def rankings(section: Section) -> list[Ranking]:
    """Point by point, as the section lays them out."""
    return list(_rankings(section))


def _rankings(section: Section) -> Iterator[Ranking]:
    for facet in section.facets:
        others = other_numbers(facet)
        for x in facet.xs:
            there = [(label, facet.cells[label, x]) for label in facet.labels if (label, x) in facet.cells]
            for other in (False, True):
                cases = [case for label, case in there if (label in others) is other and _told(case)]
                if len(cases) > 1:
                    cases.sort(key=lambda case: case.values[CALL].median)
                    yield Ranking(_at(section, cases[0]), other, tuple(cases))


def _told(case: CaseSummary) -> bool:
    return case.usable and CALL in case.values


def _at(section: Section, case: CaseSummary) -> str:
    return " · ".join(value_text(axis, case.axis(axis)) for axis in section.axes)


def energy_words(section: Section) -> list[str]:
    """Sentences of the least and the most, and of who may take as little."""
    return [text for ranking in rankings(section)[:MOST_SAID] for text in _words(ranking)]


def _words(ranking: Ranking) -> Iterator[str]:
    where = f"{ranking.at}: " if ranking.at else ""
    least, most = ranking.least, ranking.most
    first, last = (units.scaled(case.values[CALL].median, ENERGY) for case in (least, most))
    more = f", {units.ratio(ranking.ratio)} as much" if ranking.ratio else ""
    of = "of those that compute something else on purpose " if ranking.other else ""
    near = ranking.near
    if len(near) == len(ranking.cases) - 1:
        yield f"{where}{of}a call takes from {first} ({least.label}) to {last} ({most.label}), which these trials do not tell apart."
        return
    yield f"{where}{of}{least.label} takes the least energy, {first} a call, and {most.label} the most, {last}{more}."
    if near:
        names = ", ".join(case.label for case in near)
        yield f"{where}{names} may take as little as {least.label}, since ranges over trials touch or one trial alone tells."


def energy_table(section: Section, row_ids: Mapping[tuple[str, str], str]) -> Table | None:
    """A line for each case whose energy is told, in the section's order; None where none is."""
    cases = [case for case in section.in_order() if _told(case)]
    if not cases:
        return None
    bases = _bases(section)
    others = {id(facet.cells[key]) for facet in section.facets for key in facet.cells if key[0] in other_numbers(facet)}
    at, tokens, ratios = bool(section.axes), any(TOKEN in case.values for case in cases), any(id(case) in bases for case in cases)
    names = {facet.baseline for facet in section.facets if facet.baseline}
    base_name = names.pop() if len(names) == 1 else "the baseline"
    heads = (
        Head("subject"), *((Head("point"),) if at else ()), Head(title(CALL)), *((Head(title(TOKEN)),) if tokens else ()),
        *((Head(f"energy, × of {base_name}"),) if ratios else ()), Head("time per call"),
    )  # fmt: skip
    most = max(case.values[CALL].high for case in cases)
    lines = tuple(
        (
            Cell(case.label, OTHER if id(case) in others else "", link=row_ids.get((case.case.key, case.arm))),
            *((Cell(_at(section, case)),) if at else ()),
            _energy(case, CALL, most),
            *((_energy(case, TOKEN, 0.0),) if tokens else ()),
            *((_beside(case, bases.get(id(case))),) if ratios else ()),
            _time(case),
        )
        for case in cases[:MOST_LINES]
    )
    more = (f"The first {MOST_LINES} of {len(cases)} lines.",) if len(cases) > MOST_LINES else ()
    words = (*energy_words(section), *_conditions(section, cases), *more)
    return Table("Energy", _CAPTION, heads, lines, words=words, kind="energy")


def _bases(section: Section) -> dict[int, CaseSummary]:
    """By the identity of a case its baseline at the same point, where the energy of both is told."""
    found = {}
    for facet in section.facets:
        for (label, x), case in facet.cells.items():
            base = facet.cells.get((facet.baseline, x)) if facet.baseline not in (None, label) else None
            if base is not None and _told(base) and _told(case):
                found[id(case)] = base
    return found


def _energy(case: CaseSummary, metric: str, most: float) -> Cell:
    value = case.values.get(metric)
    if value is None:
        return Cell("–", tint="none")
    note = f"{units.scaled_range(value.low, value.high, ENERGY)}, n {value.n}" if value.n > 1 else "n 1"
    return Cell(units.scaled(value.median, ENERGY), note, share=value.median / most if most > 0 else None)


def _beside(case: CaseSummary, base: CaseSummary | None) -> Cell:
    ratio = None if base is None else case.values[CALL].ratio_to(base.values[CALL])
    if ratio is None:
        return Cell("–", tint="none")
    between = f"{units.ratio(ratio.low).removesuffix('×')}{units.EN_DASH}{units.ratio(ratio.high).removesuffix('×')}"
    return Cell(units.ratio(ratio.median), between if ratio.n > 1 else "")


def _time(case: CaseSummary) -> Cell:
    value = case.values.get(TIME)
    return Cell(units.seconds(value.median)) if value else Cell("–", tint="none")


def _conditions(section: Section, cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Of how many cases it is told, and what the GPU was allowed to draw."""
    timed = sum(case.usable and TIME in case.values for case in section.cases)
    if len(cases) < timed:
        yield f"Told of {len(cases)} of {timed} cases with a time."
    soft = [result.environment.soft.get(_LIMIT) for case in cases for result in case.counted]
    limits = sorted({float(limit) for limit in soft if isinstance(limit, int | float) and not isinstance(limit, bool)})
    if limits:
        yield f"The GPU's power limit: {', '.join(f'{limit:g} W' for limit in limits)}."


def energy_data(section: Section) -> list[Json]:
    """The rankings as data: joules a call, the least and the most at each point, and who may take as little as the least."""
    return [
        {
            "run": section.run.id,
            "workload": section.workload,
            "at": ranking.at,
            "other_numbers": ranking.other,
            "least": _named(ranking.least),
            "most": _named(ranking.most),
            "ratio": ranking.ratio,
            "may_take_as_little": [case.label for case in ranking.near],
        }
        for ranking in rankings(section)
    ]


def _named(case: CaseSummary) -> Json:
    return {"case_key": case.case.key, "arm": case.arm, "label": case.label, CALL: case.values[CALL].median}
