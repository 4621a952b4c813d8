"""The two charts of a panel, time and memory against its sizes, in batches that can be told apart, and what is said around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.drawing import figures
from bench.report.drawing.dots import MOST_SIZES, dots
from bench.report.drawing.roofline import MOST_ROOFS
from bench.report.numbers import units
from bench.report.numbers.layout import MAX_LINES, Facet, Section
from bench.report.numbers.rates import Exponent, growth_lines
from bench.report.numbers.summary import TIME
from bench.report.views.explained import MOST_TIMELINES
from bench.report.views.rows import Depth

MAX_PANELS = 24
"""Charts drawn in one page, about 10 to 25 kB each; further panels keep their matrix and say that they have no chart."""
FEW_PANELS, FEW_EXTRAS, FEW_TOLD = 16, 3, 6
"""In a page with very many rows."""
LEAST_PANELS, LEAST_EXTRAS, LEAST_TOLD = 2, 1, 4
"""In a page that is to travel light, for each run."""
MAX_TOLD = 24
"""Panels of a section whose further views are shown; their numbers are in every matrix."""
MOST_REASON = 220
MAX_EXTRAS = 12
"""Charts beside those of time and memory: three for each panel that stands open."""


@dataclass(slots=True)
class Room:
    """How much may still be drawn in a page."""

    panels: int = MAX_PANELS
    extras: int = MAX_EXTRAS
    timelines: int = MOST_TIMELINES
    told: int = MAX_TOLD
    """Panels of a section that have further views."""
    errors: int = MAX_TOLD
    """Panels of a section whose errors are drawn."""
    roofs: int = MOST_ROOFS
    """Rooflines of a section."""
    drawn: bool = True
    """False where only what is said is wanted, as by who computes it again: then charts are empty."""

    @classmethod
    def of(cls, depth: Depth, runs: int) -> Room:
        """What a page of this depth has room for, of so many runs; of one that is to travel light what it has for each of them."""
        if depth.light:
            return cls(LEAST_PANELS, LEAST_EXTRAS, told=LEAST_TOLD, errors=1, roofs=1 if runs == 1 else 0)
        return cls(FEW_PANELS, FEW_EXTRAS, told=FEW_TOLD, errors=FEW_TOLD) if depth.brief else cls()


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart with what stands around it."""

    title: str
    hint: str
    svg: str
    growths: tuple[tuple[str, str, str], ...]
    """Subjects, what grows, and its exponent in words; subjects of one exponent together."""


def cut(reason: str) -> str:
    """As much of a reason as a line holds."""
    return reason if len(reason) <= MOST_REASON else f"{reason[:MOST_REASON]} …"


def nowhere(facet: Facet) -> tuple[tuple[str, str, str | None], ...]:
    found = []
    for label in facet.labels:
        cells = facet.row(label)
        if not any(cell.usable for cell in cells):
            words = ", ".join(dict.fromkeys(figures.case_word(cell) for cell in cells))
            reason = cells[0].reason
            found.append((label, words, reason and cut(reason)))
    return tuple(found)


def _batches(facet: Facet) -> list[list[str]]:
    """Subjects with a value, at most MAX_LINES together; the baseline stands in each batch."""
    drawn = [label for label in facet.labels if any(cell.usable for cell in facet.row(label))]
    if len(drawn) <= MAX_LINES:
        return [drawn] if drawn else []
    base = [facet.baseline] if facet.baseline in drawn and facet.baseline else []
    rest = [label for label in drawn if label not in base]
    step = MAX_LINES - len(base)
    return [base + rest[start : start + step] for start in range(0, len(rest), step)]


def lying_together(facet: Facet) -> tuple[str, ...]:
    return tuple(
        f"{', '.join(units.shorten(label, 40) for label in group)}: lines of {figures.TITLES[metric]} lie on each other"
        for metric in (TIME, facet.memory)
        for labels in _batches(facet)
        for group in figures.coinciding(facet, labels, metric)
    )


def _hint(facet: Facet, swept: str | None) -> str:
    if len(facet.xs) > MOST_SIZES:
        return "lower is better · both axes logarithmic · bars: range over trials"
    sizes = ""
    if len(facet.xs) == MOST_SIZES and swept:
        sizes = f" · ○{units.NO_BREAK}{swept.replace('_', ' ')} {facet.xs[0]} →{units.NO_BREAK}●{units.NO_BREAK}{facet.xs[1]}"
    return f"lower is better · logarithmic · bars: range over trials{sizes}"


def panels(
    facet: Facet, section: Section, chosen: dict[str, figures.Style], prefix: str, room: int, found: Sequence[Exponent]
) -> tuple[list[Panel], str | None]:
    batches = _batches(facet)
    few = len(facet.xs) <= MOST_SIZES
    if not batches:
        return [], "No subject has a value here, so there is no chart."
    if room < 2 * len(batches):
        return [], "This page draws no more charts; the numbers of this panel are in the matrix."
    made = []
    undrawn = None
    for number, labels in enumerate(batches, 1):
        part = f" ({number} of {len(batches)})" if len(batches) > 1 else ""
        for metric in (TIME, facet.memory):
            name = f"{prefix}{number}{metric[0]}"
            try:
                svg = (
                    dots(facet, labels, metric, swept=section.swept, chosen=chosen, prefix=name)
                    if few or section.swept is None
                    else figures.panel(facet, labels, metric, swept=section.swept, chosen=chosen, prefix=name)
                )
            except (ValueError, ArithmeticError) as error:
                # One strange imported row must not cost the reader the page.
                undrawn = f"{figures.TITLES[metric].capitalize()}: no chart: {error}"
                continue
            if svg:
                title = f"{figures.TITLES[metric].capitalize()}{part}"
                made.append(Panel(title, _hint(facet, section.swept), svg, growth_lines(found, labels, metric, section.swept)))
    return made, undrawn
