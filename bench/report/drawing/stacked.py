"""Draws stacked bars, one for each subject: what a peak consists of, or how long the phases of a step last. From zero, with the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.drawing.callouts import cut
from bench.report.drawing.parts import ORDER, WORDS, colour_of, number
from bench.report.drawing.svg import CARD, CHARACTER_IN, GRID, INK, PART, SERIES, WIDTH_IN, plain_text, settings, written
from bench.report.numbers import units

ROW_IN = 0.32
LEGEND_ROW_IN = 0.2
LONGEST_NAME = 22
MOST_BARS = 16
SWATCH_IN = 0.16


def stacked(
    bars: Sequence[tuple[str, Mapping[str, float]]],
    unit: str,
    *,
    title: str,
    prefix: str,
    bold: str | None = None,
    below: str | None = None,
) -> str | None:
    """SVG text of bars, given as label and part to value; None where fewer than one holds two parts. At most `MOST_BARS` are drawn.

    `unit` as `METRICS` spells it; the sum stands right of each bar. `prefix` must be unique on the page. `below` is the label of bars
    that are no subjects but belong to the one above.
    """
    drawn = [(label, parts) for label, parts in bars if sum(parts.values()) > 0][:MOST_BARS]
    if not any(len(parts) > 1 for _, parts in drawn):
        return None
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    labels = [label for label, _ in drawn]
    subjects = [label for label in labels if label != below]
    names = [plain_text(label if label == below else cut(label, subjects, LONGEST_NAME)) for label in labels]
    sums = [units.in_unit(sum(parts.values()), unit) for _, parts in drawn]
    left = (max(map(len, names)) + 1.5) * CHARACTER_IN
    right = (max(map(len, sums)) + 1) * CHARACTER_IN
    present = [part for part in ORDER if any(part in parts for _, parts in drawn)]
    places, legend_rows = _legend_places(present)
    legend_in = legend_rows * LEGEND_ROW_IN
    bars_in = ROW_IN * len(drawn)
    height = bars_in + 0.4 + legend_in
    with matplotlib.rc_context(settings(prefix)):
        figure = Figure(figsize=(WIDTH_IN, height))
        canvas = FigureCanvasSVG(figure)
        span = max(1.0, WIDTH_IN - left - right - 0.05)
        axes: Any = figure.add_axes((left / WIDTH_IN, (0.34 + legend_in) / height, span / WIDTH_IN, bars_in / height))
        top = max(sum(parts.values()) for _, parts in drawn)
        axes.set_xlim(0, top * 1.02)
        axes.set_ylim(len(drawn) - 0.5, -0.5)
        _bars(axes, [parts for _, parts in drawn], top, span, unit)
        for position, (label, _) in enumerate(drawn):
            axes.text(-0.02, position, names[position], transform=axes.get_yaxis_transform(), ha="right", va="center", color=INK,
                      parse_math=False, fontweight="bold" if label == bold else "normal")  # fmt: skip
            axes.text(1.02, position, sums[position], transform=axes.get_yaxis_transform(), ha="left", va="center", color=INK,
                      parse_math=False)  # fmt: skip
        _ticks(axes, top, unit)
        _legend(figure, places, legend_in, height)
        return written(
            canvas, prefix, f"{title}: {', '.join(f'{label} {total}' for (label, _), total in zip(drawn, sums, strict=True))}"
        )


def _bars(axes: Any, drawn: Sequence[Mapping[str, float]], top: float, span: float, unit: str) -> None:
    """Part by part, since what looks the same is written once where it follows each other."""
    begins = [0.0] * len(drawn)
    for part in ORDER:
        there = [position for position, parts in enumerate(drawn) if parts.get(part)]
        values = [drawn[position][part] for position in there]
        axes.barh(there, values, left=[begins[position] for position in there], height=0.66, color=PART.format(number(part)),
                  edgecolor=CARD, linewidth=0.7)  # fmt: skip
        for position, value in zip(there, values, strict=True):
            text = units.in_unit(value, unit)
            if value / (top * 1.02) * span > (len(text) + 1) * CHARACTER_IN:
                axes.text(begins[position] + value / 2, position, text, ha="center", va="center", color=INK, parse_math=False,
                          fontsize=6.6, bbox={"facecolor": CARD, "edgecolor": "none", "boxstyle": "square,pad=0.12"})  # fmt: skip
            begins[position] += value


def _ticks(axes: Any, top: float, unit: str) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

    scale, name = units.rung(top, units.LADDERS[unit])
    ticks = [
        tick
        for tick in MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top / scale)
        if 0 <= tick * scale <= top * 1.02
    ]
    axes.xaxis.set_major_locator(FixedLocator([tick * scale for tick in ticks]))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:g} {name}" for tick in ticks]))
    axes.yaxis.set_major_locator(NullLocator())
    axes.grid(True, axis="x", color=GRID, linewidth=0.6, alpha=0.9)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend_places(parts: Sequence[str]) -> tuple[list[tuple[str, float, int]], int]:
    """Part, inches from the left and row of each entry, and the number of rows."""
    places: list[tuple[str, float, int]] = []
    at, row = 0.05, 0
    for part in parts:
        wide = SWATCH_IN + 0.1 + (len(WORDS[part]) + 2) * CHARACTER_IN
        if at + wide > WIDTH_IN and places:
            at, row = 0.05, row + 1
        places.append((part, at, row))
        at += wide
    return places, row + 1


def _legend(figure: Any, places: Sequence[tuple[str, float, int]], legend_in: float, height: float) -> None:
    from matplotlib.patches import Rectangle

    for part, at, row in places:
        middle = (legend_in - (row + 0.5) * LEGEND_ROW_IN) / height
        size = 0.11 / height
        figure.add_artist(
            Rectangle((at / WIDTH_IN, middle - size / 2), SWATCH_IN / WIDTH_IN, size, facecolor=PART.format(number(part)),
                      edgecolor=SERIES.format(colour_of(number(part))), linewidth=0.9, transform=figure.transFigure)
        )  # fmt: skip
        figure.text((at + SWATCH_IN + 0.06) / WIDTH_IN, middle, WORDS[part], va="center", color=INK, parse_math=False)
