"""The page computed again: the views of its data made anew, without a chart, by which all that it says in words is held.

Its data are turned into rows, and these go the way that measured rows go. Raises NoPage for data that are no rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.rates import facet_exponents, growth_lines
from bench.report.numbers.summary import TIME, CaseSummary, gather
from bench.report.recompute.rows import rows_of
from bench.report.recompute.told import Scope, scopes, squeezed
from bench.report.views.matrix import cell_parts, row_words
from bench.report.views.panels import Room
from bench.report.views.rows import Depth, Row
from bench.report.views.runs import RunView, SectionView, run_view
from bench.report.views.sharing import pooled
from bench.store.page_data import NoPage, PageData

ENDLESS = 10**6
Part = tuple[int | None, str, str]
"""The case that it is of, what it is counted among, and its words."""


@dataclass(frozen=True, slots=True)
class Retold:
    """What the page says, by where it says it. Cases are named by their position in the data."""

    scopes: tuple[Scope, ...]
    lines: Mapping[int, Sequence[Part]]
    """What the line of the matrix says in which a case is the first."""
    rows: Mapping[int, Row]
    """The leading row of each case."""
    exponents: Mapping[int, Mapping[str, tuple[str, ...]]]
    """For the panel of a case what grows and how, to the subjects of which that is so; a chart names those that it shows."""


def retold(page: PageData) -> Retold:
    """Raises NoPage."""
    try:
        return _retold(page)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise NoPage(f"the data inside the page are no rows ({' '.join(str(error).split())[:200]})") from error


def _retold(page: PageData) -> Retold:
    results = rows_of(page)
    depth = Depth.named(page.depth, len(page.cases))
    views: list[RunView] = []
    gathered = {run.id: gather(run, [row for row in results if row.run_id == run.id], told=True) for run in page.runs}
    pools = pooled(page.runs, {run.id: gathered[run.id][0] for run in page.runs})
    for number, run in enumerate(page.runs, 1):
        cases, reach = gathered[run.id]
        room = Room.of(depth, len(page.runs))
        room.panels, room.extras, room.timelines, room.drawn = 0, ENDLESS, 0, False
        views.append(run_view(run, cases, reach, number, depth, room, pools.get(run.id)))
    places = {(page.runs[one.run].id, one.case.key, one.arm): place for place, one in enumerate(page.cases)}

    def place(case: CaseSummary) -> int:
        return places[case.run_id, case.case.key, case.arm]

    sections = [section for view in views for section in (*view.sections, *view.canary_rows)]
    return Retold(
        tuple(scopes(views, depth)),
        {parts[0][0]: parts for section in sections for parts in _lines(section, place, depth) if parts[0][0] is not None},
        {place(row.summary): row for section in sections for row in section.rows if row.status is row.summary.status},
        {place(case): grown for section in sections for case, grown in _exponents(section.section)},
    )


def _lines(section: SectionView, place: Callable[[CaseSummary], int], depth: Depth) -> Iterator[list[Part]]:
    for view in section.facets:
        for row in view.matrix:
            first = next((cell.summary for cell in row.cells if cell.summary is not None), None)
            parts: list[Part] = [(None if first is None else place(first), "subjects", row_words(row))]
            for cell in row.cells:
                own = None if cell.summary is None else place(cell.summary)
                parts += [(own, what, words) for what, words in cell_parts(cell, view.facet.memory, depth)]
            yield parts


def _exponents(section: Section) -> Iterator[tuple[CaseSummary, Mapping[str, tuple[str, ...]]]]:
    for facet in section.facets:
        grown = _of_panel(facet, section.swept)
        yield from ((case, grown) for case in facet.cells.values())


def _of_panel(facet: Facet, swept: str | None) -> Mapping[str, tuple[str, ...]]:
    # Also those that are known too badly to be told: pages of older versions tell them.
    exponents: dict[str, tuple[str, ...]] = {}
    found = facet_exponents(facet, swept)
    for metric in (TIME, facet.memory):
        for label in facet.labels:
            for name, what, words in growth_lines(found, [label], metric, swept, math.inf):
                exponents[f"{what}{words}"] = (*exponents.get(f"{what}{words}", ()), name)
    return exponents


def follows(text: str, exponents: Mapping[str, Sequence[str]]) -> bool:
    """Whether a line about exponents, without spaces, names what grows in this way."""
    for key, names in exponents.items():
        told = squeezed(key)
        if text.endswith(told) and _are_some(text.removesuffix(told), [squeezed(name) for name in names]):
            return True
    return False


def _are_some(text: str, names: Sequence[str]) -> bool:
    """Whether `text` is some of `names` in their order, with commas between; a name may hold one."""
    rest = f"{text},"
    for name in names:
        rest = rest.removeprefix(f"{name},")
    return not rest
