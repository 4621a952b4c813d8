"""Time against memory: which subjects nobody beats in both, as a chart and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.report.drawing.callouts import call_out
from bench.report.drawing.figures import Style, limits, nice_ticks, tick_text
from bench.report.drawing.svg import CARD, GRID, MUTED, SERIES, WIDTH_IN, settings, written
from bench.report.numbers import units
from bench.report.numbers.findings import other_numbers
from bench.report.numbers.layout import MAX_LINES, Facet
from bench.report.numbers.summary import TIME, CaseSummary

FEWEST_SUBJECTS = 4
MOST_NAMES = 2 * MAX_LINES
HEIGHT_IN = 3.0


@dataclass(frozen=True, slots=True)
class Front:
    """The subjects of one size of a panel that have both values, and those among them that nobody beats in both."""

    x: float | int | None
    cells: tuple[CaseSummary, ...]
    best: tuple[CaseSummary, ...]
    """From the fastest to the smallest."""


def front_of(facet: Facet) -> Front | None:
    """At the largest size with enough subjects; None where no size has them.

    Who computes something else on purpose beats nobody, and is beaten by nobody.
    """
    memory, others = facet.memory, other_numbers(facet)
    for x in reversed(facet.xs):
        cells = [cell for label in facet.labels if (cell := facet.cells.get((label, x))) is not None and cell.usable]
        both = tuple(cell for cell in cells if TIME in cell.values and cell.values.get(memory) and cell.values[memory].median > 0)
        if len(both) >= FEWEST_SUBJECTS:
            alike = [cell for cell in both if cell.label not in others]
            return Front(x, both, tuple(unbeaten(alike, memory)))
    return None


def unbeaten(cells: Sequence[CaseSummary], memory: str) -> list[CaseSummary]:
    """Those that no other is at least as good as in both and better in one, by medians, the fastest first."""

    def place(cell: CaseSummary) -> tuple[float, float]:
        return cell.values[TIME].median, cell.values[memory].median

    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one != other and one[0] <= other[0] and one[1] <= other[1]

    places = [place(cell) for cell in cells]
    return sorted((cell for cell in cells if not any(beats(other, place(cell)) for other in places)), key=place)


def front_words(front: Front, facet: Facet, swept: str | None) -> str:
    """`Nobody is both faster and smaller, at seq len 4096: flex (297 µs, 128 MiB), eager (…). The others are beaten in both.`"""
    memory = facet.memory
    listed = ", ".join(
        f"{cell.label} ({units.seconds(cell.values[TIME].median)}, {units.size(cell.values[memory].median)})" for cell in front.best
    )
    at = f" at {swept.replace('_', ' ')} {front.x}" if swept and front.x is not None else ""
    others = other_numbers(facet)
    apart = [cell.label for cell in front.cells if cell.label in others]
    beaten = len(front.cells) - len(front.best) - len(apart)
    words = f"Unbeaten{at}: {listed}"
    if beaten:
        words += f"; for each of the other {beaten} one of these is at least as fast and as small" if beaten > 1 else (
            "; for the other one of these is at least as fast and as small")  # fmt: skip
    if apart:
        words += f"; {', '.join(apart)} compute{'s' if len(apart) == 1 else ''} something else on purpose"
    return words + "."


def near_words(front: Front, memory: str) -> tuple[str, ...]:
    """A sentence for each group of the unbeaten whose memory prints the same: why the slower ones of them are not beaten."""
    alike: dict[str, list[CaseSummary]] = {}
    for cell in front.best:
        alike.setdefault(units.size(cell.values[memory].median), []).append(cell)
    found = []
    for cells in alike.values():
        held = [cell.values[memory].median for cell in cells]
        if len(cells) > 1 and max(held) > min(held):
            found.append(
                f"The memory of {', '.join(cell.label for cell in cells)} lies within {units.size(max(held) - min(held))}."
            )
    return tuple(found)


def pareto(front: Front, facet: Facet, chosen: dict[str, Style], prefix: str) -> str | None:
    """SVG text of the chart, both axes logarithmic; None with more names than can be told apart. Raises ValueError as `limits` does."""
    if len(front.cells) > MOST_NAMES:
        return None
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    memory, others = facet.memory, other_numbers(facet)
    marks = {cell.label: (cell.values[TIME].median, cell.values[memory].median) for cell in front.cells}
    with matplotlib.rc_context(settings(prefix)):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN))
        canvas = FigureCanvasSVG(figure)
        axes: Any = figure.add_axes((0.155, 0.48 / HEIGHT_IN, 0.49, (HEIGHT_IN - 0.58) / HEIGHT_IN))
        axes.set_xscale("log")
        axes.set_yscale("log")
        spans = limits([x for x, _ in marks.values()]), limits([y for _, y in marks.values()])
        axes.set_xlim(*spans[0])
        axes.set_ylim(*spans[1])
        edge = [marks[cell.label] for cell in front.best]
        if edge:
            axes.step([edge[0][0], *(x for x, _ in edge), spans[0][1]], [spans[1][1], *(y for _, y in edge), edge[-1][1]],
                      where="post", color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))  # fmt: skip
        for label, (x, y) in marks.items():
            colour = SERIES.format(chosen[label].colour)
            axes.plot([x], [y], linestyle="none", marker=chosen[label].marker, color=colour, markersize=6.5, markeredgewidth=1.1,
                      markeredgecolor=colour if label in others else CARD, markerfacecolor=CARD if label in others else colour)  # fmt: skip
        call_out(axes, marks, chosen)
        for axis, metric, span, most in ((axes.xaxis, TIME, spans[0], 4), (axes.yaxis, memory, spans[1], 7)):
            ticks = nice_ticks(*span, binary=metric != TIME)
            ticks = ticks[:: max(1, -(-len(ticks) // most))]
            axis.set_major_locator(FixedLocator(ticks))
            axis.set_major_formatter(FixedFormatter([tick_text(tick, metric) for tick in ticks]))
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel("time per call")
        axes.grid(True, color=GRID, linewidth=0.6, alpha=0.9)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return written(canvas, prefix, f"time against memory of {', '.join(marks)}, {facet.title or 'one panel'}")
