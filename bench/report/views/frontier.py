"""The frontier of memory: for each subject the largest size that fits, and the smallest that does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.plan.rounding import CONTEXT_BYTES
from bench.plan.stored import stored
from bench.records import MEMORY_LIMIT_PARAM
from bench.report.answers.advice import Advice
from bench.report.answers.settings import setting
from bench.report.drawing.figures import Style, status_word
from bench.report.drawing.strips import BAR, FULL, WALL, Mark, Strip, strips
from bench.report.numbers import units
from bench.report.numbers.layout import Facet, Section, searched_axis
from bench.report.numbers.summary import TIME, CaseSummary
from bench.report.views.tables import Cell, Head, Table
from bench.run.search import Frontier, frontier, outcome

BESIDES = (("host_resident_bytes", "host memory there"), ("disk_bytes", "on disk there"))
"""Metric and head of what else a size takes, shown where a subject has it."""


UNDER_CAP = (
    f"A memory limit holds what torch's allocator takes; a card of that size has about {units.size(CONTEXT_BYTES)} less for it, which the "
    "driver's context takes, and times are those of this GPU."
)


@dataclass(frozen=True, slots=True)
class Reaches:
    """How far one subject comes in a panel."""

    label: str
    found: Frontier
    largest: CaseSummary | None
    """The case of the largest size that fits."""
    smallest: int | None
    """The smallest size that was asked for."""
    needed_bytes: int | None
    """Of the device, as planned before it ran, at the smallest size that is out of memory."""


def reaches(section: Section, facet: Facet) -> tuple[Reaches, ...]:
    """Of each subject, where the suite searches or a size of the sweep ran out of memory; none else.

    Nor where sizes were asked of different numbers of ranks: what one does not hold several do, and the table of scaling tells each.
    """
    axis = searched_axis(section.run) or section.swept
    if axis is None or len({cell.case.world_size for cell in facet.cells.values()}) > 1:
        return ()
    found = [entry for label in facet.labels if (entry := _reach(facet, label, axis)) is not None]
    told = searched_axis(section.run) is not None or any(entry.found.smallest_oom is not None for entry in found)
    return tuple(found) if told else ()


def _reach(facet: Facet, label: str, axis: str) -> Reaches | None:
    cells = {value: cell for cell in facet.row(label) if type(value := cell.axis(axis)) is int and value > 0 and cell.counted}
    if not cells:
        return None
    answers = {value: ended for value, cell in cells.items() if (ended := outcome([r.status for r in cell.counted])) is not None}
    found = frontier(answers)
    largest = cells.get(found.largest_ok) if found.largest_ok is not None else None
    beyond = cells[found.smallest_oom].counted if found.smallest_oom is not None else ()
    planned = [told.peak_bytes for row in beyond if (told := stored(row.conditions)) is not None]
    return Reaches(label, found, largest, min(cells), planned[0] if planned else None)


def _words(found: Frontier) -> str:
    if found.ended_by is not None and found.largest_ok is None:
        return f"{status_word(found.ended_by[1])} at {found.ended_by[0]}"
    if found.largest_ok is None:
        return f"not even {found.smallest_oom}" if found.smallest_oom is not None else "nothing fits"
    if found.smallest_oom is None:
        return f"{found.largest_ok}, none larger was asked for"
    return f"{found.largest_ok} fits, {found.smallest_oom} does not"


def frontier_table(
    section: Section, facet: Facet, chosen: Mapping[str, Style], row_ids: Mapping[tuple[str, str], str]
) -> Table | None:
    """The view of one panel; None where nothing is searched and nothing runs out of memory."""
    axis, found = searched_axis(section.run) or section.swept or "", reaches(section, facet)
    if not found:
        return None
    name = axis.replace("_", " ")
    ordered = sorted(found, key=lambda entry: -(entry.found.largest_ok or 0))
    svg = strips(
        [_strip(entry, chosen, bold=entry.label == facet.baseline) for entry in ordered],
        title=f"largest {name} that fits",
        tick=lambda value: f"{value:.0f}",
        binary=True,
    )
    besides = [
        (metric, head) for metric, head in BESIDES if any(metric in entry.largest.values for entry in found if entry.largest)
    ]
    lines = tuple(_line(entry, facet, row_ids, [metric for metric, _ in besides]) for entry in ordered)
    heads = (
        Head("subject"), Head(f"largest {name} that fits"),
        Head("smallest that is out of memory", "planned: what bench plan said before it ran"), Head("time there"), Head("peak there"),
        *(Head(head) for _, head in besides),
    )  # fmt: skip
    caption = "● fits, △ out of memory. Further right is better; the axis is logarithmic."
    if any(MEMORY_LIMIT_PARAM in cell.case.params and cell.case.device == "cuda" for cell in facet.cells.values()):
        caption += f" {UNDER_CAP}"
    return Table(f"What fits, by {name}", caption, heads, lines, svg, kind="frontier")


def _strip(entry: Reaches, chosen: Mapping[str, Style], *, bold: bool) -> Strip:
    found = entry.found
    marks = []
    if found.largest_ok is not None:
        if entry.smallest is not None and entry.smallest < found.largest_ok:
            marks.append(Mark(BAR, float(entry.smallest), float(found.largest_ok)))
        marks.append(Mark(FULL, float(found.largest_ok)))
    if found.smallest_oom is not None:
        marks.append(Mark(WALL, float(found.smallest_oom)))
    return Strip(entry.label, tuple(marks), _words(found), chosen[entry.label].colour, bold)


def _line(entry: Reaches, facet: Facet, row_ids: Mapping[tuple[str, str], str], besides: Sequence[str]) -> tuple[Cell, ...]:
    found, case = entry.found, entry.largest
    link = row_ids.get((case.case.key, case.arm)) if case else None
    ended = f"then {status_word(found.ended_by[1])} at {found.ended_by[0]}" if found.ended_by else ""
    needs = f"planned: {units.size(entry.needed_bytes)}" if entry.needed_bytes is not None else ""
    none = Cell("–", tint="none")

    def there(metric: str) -> Cell:
        return Cell(units.size(case.values[metric].median)) if case and case.usable and metric in case.values else none

    return (
        Cell(entry.label),
        Cell(str(found.largest_ok), ended, link=link) if found.largest_ok is not None else Cell("none", ended, tint="word"),
        Cell(str(found.smallest_oom), needs, tint="word") if found.smallest_oom is not None else Cell("none seen", tint="none"),
        Cell(units.seconds(case.values[TIME].median)) if case and case.usable and TIME in case.values else none,
        *(there(metric) for metric in (facet.memory, *besides)),
    )


def frontier_advice(section: Section) -> list[Advice]:
    """For a suite that searches: in each panel who comes farthest, and how far the others do."""
    axis = searched_axis(section.run)
    if axis is None:
        return []
    name = axis.replace("_", " ")
    advice = []
    for facet in section.facets:
        fits = [entry for entry in reaches(section, facet) if entry.found.largest_ok is not None]
        if not fits:
            continue
        first, *rest = sorted(fits, key=lambda entry: -(entry.found.largest_ok or 0))
        open_end = "" if first.found.smallest_oom is not None else ", and nothing larger was asked for"
        level = [first.label, *(entry.label for entry in rest if entry.found.largest_ok == first.found.largest_ok)]
        others = "; ".join(f"{entry.label} {entry.found.largest_ok}" for entry in rest if entry.label not in level)
        advice.append(
            Advice(
                where=facet.title or "on this machine",
                verb="use",
                subject=" or ".join(level),
                numbers=f"up to {name} {first.found.largest_ok} fits{open_end}" + (f"; the others: {others}" if others else ""),
                doubt=None,
                setting=setting(first.largest) if first.largest else None,
                settled=first.found.smallest_oom is not None,
                about=(first.largest,) if first.largest else (),
            )
        )
    return advice
