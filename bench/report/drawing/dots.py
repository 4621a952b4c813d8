"""Draws one panel with one or two sizes: a line for each subject, a dot for each size, the numbers beside them.

Two points make no curve, so nothing here suggests one. The axis of values is logarithmic; a bar is the range over trials. Where a
subject has no value, its status stands among the numbers as a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.metrics import METRICS
from bench.report.drawing.callouts import cut
from bench.report.drawing.figures import TITLES, Style, limits, missing_word, nice_ticks, tick_text
from bench.report.drawing.svg import CARD, CHARACTER_IN, GRID, INK, SERIES, WIDTH_IN, plain_text, settings, written
from bench.report.numbers import units
from bench.report.numbers.layout import Facet

ROW_IN = 0.27
LONGEST_NAME = 22
MOST_SIZES = 2
SMALL_SIZE, LARGE_SIZE = 5.0, 6.6
"""Marker sizes in points: the smaller dot is the smaller size, and it is hollow."""


def _numbers(facet: Facet, label: str, metric: str) -> str:
    words = []
    for x in facet.xs:
        cell = facet.cells.get((label, x))
        missing = missing_word(cell, metric)
        words.append(missing or (units.in_unit(cell.values[metric].median, units.metric_unit(metric)) if cell else ""))
    return words[0] if len(set(words)) == 1 else " → ".join(words)


def dots(
    facet: Facet, labels: Sequence[str], metric: str, *, swept: str | None, chosen: dict[str, Style], prefix: str
) -> str | None:
    """SVG text of one panel with the subjects `labels`; None where fewer than two values are to be seen.

    For facets of one or two sizes. `prefix` must be unique on the page.
    """
    drawn = {
        label: {
            x: cell.values[metric]
            for x in facet.xs
            if (cell := facet.cells.get((label, x))) is not None and missing_word(cell, metric) is None
        }
        for label in labels
    }
    drawn = {label: points for label, points in drawn.items() if points}
    if sum(len(points) for points in drawn.values()) < 2:
        return None
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    names = [plain_text(cut(label, drawn, LONGEST_NAME)) for label in drawn]
    numbers = [_numbers(facet, label, metric) for label in drawn]
    left = (max(map(len, names)) + 2) * CHARACTER_IN
    right = (max(map(len, numbers)) + 1) * CHARACTER_IN
    with matplotlib.rc_context(settings(prefix)):
        height = ROW_IN * len(drawn) + 0.42
        figure = Figure(figsize=(WIDTH_IN, height))
        canvas = FigureCanvasSVG(figure)
        span = max(1.0, WIDTH_IN - left - right - 0.1)
        axes: Any = figure.add_axes((left / WIDTH_IN, 0.36 / height, span / WIDTH_IN, ROW_IN * len(drawn) / height))
        axes.set_xscale("log")
        axes.set_ylim(len(drawn) - 0.5, -0.5)
        for position, (label, points) in enumerate(drawn.items()):
            _row(axes, position, label, [(x, points[x]) for x in facet.xs if x in points], facet, chosen)
            own = label == facet.baseline
            axes.text(-0.02, position, names[position], transform=axes.get_yaxis_transform(), ha="right", va="center", color=INK,
                      parse_math=False, fontweight="bold" if own else "normal")  # fmt: skip
            axes.text(1.02, position, numbers[position], transform=axes.get_yaxis_transform(), ha="left", va="center",
                      color=INK, parse_math=False)  # fmt: skip
        low, high = limits([n for points in drawn.values() for v in points.values() for n in (v.median, v.low, v.high) if n > 0])
        axes.set_xlim(low, high)
        ticks = nice_ticks(low, high, METRICS[metric].unit == "byte" if metric in METRICS else False)
        # Names of ticks need about half an inch each.
        ticks = ticks[:: max(1, -(-len(ticks) // max(2, int(span / 0.62))))]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FixedFormatter([tick_text(tick, metric) for tick in ticks]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(NullLocator())
        axes.grid(True, axis="x", color=GRID, linewidth=0.6, alpha=0.9)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        what = TITLES.get(metric, metric)
        return written(
            canvas, prefix, f"{what} of {', '.join(drawn)}, {facet.title or 'one panel'}{f', by {swept}' if swept else ''}"
        )


def _row(axes: Any, position: int, label: str, points: Sequence[Any], facet: Facet, chosen: dict[str, Style]) -> None:
    colour = SERIES.format(chosen[label].colour)
    axes.axhline(position, color=GRID, linewidth=0.6, alpha=0.6, zorder=0.5)
    if len(points) == 2:
        axes.plot([value.median for _, value in points], [position] * 2, color=colour, linewidth=1.0, alpha=0.45)
    for x, value in points:
        large = x == facet.xs[-1]
        if value.high > value.low > 0:
            axes.hlines([position], [value.low], [value.high], color=colour, linewidth=4.5, alpha=0.35)
        axes.plot([value.median], [position], linestyle="none", marker="o", color=colour, markersize=LARGE_SIZE if large else SMALL_SIZE,
                  markerfacecolor=colour if large else CARD, markeredgecolor=colour, markeredgewidth=1.2)  # fmt: skip
