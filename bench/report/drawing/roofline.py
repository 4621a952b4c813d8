"""Draws a roofline: how near each subject comes to what the machine reaches, by how much work a byte carries.

Left of the ridge the memory is the limit, right of it the matrix units. The solid roof is what the run's canaries reached, the dashed
one what the data sheet promises. All subjects of a point stand above each other, since work and bytes are those of the workload's
formula and not of the implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.records import Status
from bench.report.drawing.callouts import call_out
from bench.report.drawing.figures import DASHES, LARGEST_DRAWN, SMALLEST_DRAWN, Style
from bench.report.drawing.svg import CARD, GRID, INK, MUTED, SERIES, WIDTH_IN, settings, written
from bench.report.numbers import units
from bench.report.numbers.layout import Section
from bench.report.numbers.summary import CaseSummary

HEIGHT_IN = 3.3
MOST_ROOFS = 4
MOST_MARKS = 400
"""With more marks than this nothing can be told apart, and the file grows."""


@dataclass(frozen=True, slots=True)
class Roof:
    """Two limits: bytes per second and FLOP/s."""

    bytes_per_s: float
    flops_per_s: float

    def at(self, intensity: float) -> float:
        """The most FLOP/s at `intensity` FLOP per byte."""
        return min(intensity * self.bytes_per_s, self.flops_per_s)

    @property
    def ridge(self) -> float:
        return self.flops_per_s / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Roofline:
    """One figure: a dtype of a section."""

    dtype: str
    svg: str
    sources: str
    """Where the roofs come from."""


def rooflines(
    section: Section, chosen: dict[str, Style], prefix: str, *, most: int = MOST_ROOFS, draw: bool = True
) -> tuple[Roofline, ...]:
    """A figure, at most `most` of them, for each dtype that has a measured matrix product and copy beside it; none on a CPU.

    Its marks are the cases of the physical GPU that measured the roofs.
    """
    dtypes = list(dict.fromkeys(case.case.dtype for case in section.cases if case.case.device == "cuda"))
    found = [_roofline(section, dtype, chosen, f"{prefix}r{number}", draw=draw) for number, dtype in enumerate(dtypes, 1)]
    return tuple(figure for figure in found if figure)[:most]


def _roofline(section: Section, dtype: str, chosen: dict[str, Style], prefix: str, *, draw: bool) -> Roofline | None:
    roofs = section.cases[0].reach.ceilings
    gpus = next((gpus for gpus, ceilings in roofs.items() if ceilings.bytes and dtype in ceilings.flops), None)
    if gpus is None or (moved := roofs[gpus].bytes) is None:
        return None
    flops = roofs[gpus].flops[dtype]
    cases = [case for case in section.cases if case.case.dtype == dtype and case.status is Status.OK and case.gpus == gpus]
    # What multiplies in another format has other roofs, and what stores something in another moves other bytes.
    measured = [(case, case.rates) for case in cases if (own := case.timed) is not None and own.in_its_dtype]
    points = [(case, own.intensity, own.flops) for case, own in measured if own.flops and own.intensity]
    if not points or len(points) > MOST_MARKS:
        return None
    timed = points[0][0].timed
    sheet = timed.sheet if timed else None
    promised = Roof(sheet.bandwidth, sheet.flops[dtype]) if sheet and dtype in sheet.flops else None
    coordinates = [(case, intensity, flop.per_s) for case, intensity, flop in points if flop]
    sources = f"Solid: {moved.source}; {flops.source}."
    if sheet and promised:
        sources += f" Dashed: {sheet.model} data sheet ({sheet.source})."
    if not all(SMALLEST_DRAWN < number < LARGEST_DRAWN for _, x, y in coordinates for number in (x, y)):
        return None  # an imported row may hold a time that gives a rate which no axis carries
    svg = _draw(section, dtype, coordinates, Roof(moved.per_s, flops.per_s), promised, chosen, prefix) if draw else ""
    return Roofline(dtype, svg, sources)


def _draw(
    section: Section,
    dtype: str,
    points: Sequence[tuple[CaseSummary, float, float]],
    measured: Roof,
    promised: Roof | None,
    chosen: dict[str, Style],
    prefix: str,
) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    low_x = min(measured.ridge / 2, *(x for _, x, _ in points)) / 1.5
    high_x = max(measured.ridge * 2, *(x for _, x, _ in points)) * 1.5
    top = max((promised or measured).flops_per_s, *(y for _, _, y in points)) * 1.5
    bottom = min(measured.at(low_x), *(y for _, _, y in points)) / 1.6
    with matplotlib.rc_context(settings(prefix)):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN))
        canvas = FigureCanvasSVG(figure)
        axes: Any = figure.add_axes((0.205, 0.145, 0.535, 0.835))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low_x, high_x)
        axes.set_ylim(bottom, top)
        for roof, dash, colour in ((promised, DASHES[1], MUTED), (measured, "-", INK)):
            if roof:
                corners = [low_x, roof.ridge, high_x]
                axes.plot(corners, [roof.at(x) for x in corners], color=colour, linestyle=dash, linewidth=1.1)
        _points(axes, section, points, chosen)
        last: dict[str, tuple[float, float]] = {}
        for case, x, y in points:
            last[case.label] = max(last.get(case.label, (0.0, 0.0)), (x, y))
        call_out(axes, last, chosen)
        _ticks(axes, (low_x, high_x), (bottom, top))
        axes.set_xlabel("work per byte that must move (FLOP/byte)")
        shown = ", ".join(dict.fromkeys(case.label for case, _, _ in points))
        return written(canvas, prefix, f"roofline of {section.workload} in {dtype}: {shown}")


def _points(axes: Any, section: Section, points: Sequence[tuple[CaseSummary, float, float]], chosen: dict[str, Style]) -> None:
    places = {(case.case.key, case.arm): (x, y) for case, x, y in points}
    for facet in section.facets:
        for label in facet.labels:
            own = sorted(place for cell in facet.row(label) if (place := places.get((cell.case.key, cell.arm))) is not None)
            if own:
                colour = SERIES.format(chosen[label].colour)
                across, up = [x for x, _ in own], [y for _, y in own]
                axes.plot(across, up, color=colour, linewidth=0.9, alpha=0.5)
                axes.plot(across, up, color=colour, linestyle="none", marker=chosen[label].marker, markersize=4.8,
                          markeredgecolor=CARD, markeredgewidth=0.7)  # fmt: skip


def _ticks(axes: Any, x: tuple[float, float], y: tuple[float, float]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    from bench.report.drawing.figures import nice_ticks

    for axis, limits, unit in ((axes.xaxis, x, ""), (axes.yaxis, y, "FLOP/s")):
        ticks = nice_ticks(*limits, binary=False)
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter([_tick(tick, unit) for tick in ticks]))
        axis.set_minor_locator(NullLocator())
    axes.grid(True, which="major", color=GRID, linewidth=0.6, alpha=0.9)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _tick(value: float, unit: str) -> str:
    if not unit:
        return f"{value:g}"
    number, _, rest = units.rate(value, unit).partition(" ")
    return f"{float(number):g} {rest}"
