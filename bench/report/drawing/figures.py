"""Draws one panel, a metric of one facet against the swept axis, as lines over three sizes or more.

Both axes are logarithmic. A point that has no value is no gap: its status stands as a word in a strip above the axes, in the
colour of its subject. Panels with one or two sizes are drawn by dots.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.metrics import METRICS
from bench.records import Status
from bench.report.drawing.svg import CARD, GRID, INK, MUTED, SERIES, WIDTH_IN, plain_text, settings, written
from bench.report.numbers import units
from bench.report.numbers.layout import Facet
from bench.report.numbers.summary import SET_ASIDE, CaseSummary, Spread

DASHES: tuple[Any, ...] = ("-", (0, (7, 2.6)), (0, (1.8, 1.8)), (0, (8, 2, 2, 2)))
DASH_ARRAYS = ("", "7 2.5", "2 2", "8 2 2 2")
MARKERS = "osD^vPX*"
COLOURS = 8
SMALLEST_DRAWN, LARGEST_DRAWN = 1e-30, 1e30
"""No measurement lies outside; an imported row may, and an axis over it would overflow."""
MOST_SIZES_NAMED = 8.5
"""Names of sizes that fit side by side under a chart."""
SAME_LINE = 0.02
"""Two lines whose shared points differ by less than this (natural logarithm) lie on each other."""

KNOWN_STYLES = {
    "eager": 0, "sdpa_math": 1, "sdpa_flash": 2, "sdpa_efficient": 3, "sdpa_cudnn": 4, "flex": 5, "flash_attn2": 6, "flash_attn4": 7,
    "torch": 1, "liger": 2,
}  # fmt: skip
"""Subjects that keep one colour over all pages and nights."""

WORDS = {Status.OOM: "OOM"}
TITLES = {"time_s": "time per call", "peak_bytes": "peak memory", "saved_bytes": "memory kept for backward",
          "peak_total_bytes": "peak memory, residents included"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """How a subject is drawn everywhere: three independent cues, so that colour is never the only one."""

    index: int

    @property
    def colour(self) -> int:
        return self.index % COLOURS

    @property
    def marker(self) -> str:
        return MARKERS[self.index % len(MARKERS)]

    @property
    def dash(self) -> int:
        return (self.index + self.index // COLOURS) % len(DASHES)


def styles(labels: Sequence[str]) -> dict[str, Style]:
    """A style for each label: the known ones keep theirs, the others take what is free in alphabetical order."""
    taken = {label: KNOWN_STYLES[label] for label in labels if label in KNOWN_STYLES}
    used: set[int] = set()
    chosen: dict[str, Style] = {}
    for label in [*sorted(taken), *sorted(set(labels) - set(taken))]:
        index = taken.get(label, 0)
        while index in used:
            index += 1
        used.add(index)
        chosen[label] = Style(index)
    return chosen


def status_word(status: Status) -> str:
    """The word for a status in a cell or a strip."""
    return WORDS.get(status, str(status))


def case_word(cell: CaseSummary) -> str:
    """The word for how a case ended."""
    return status_word(cell.status) if cell.counted else SET_ASIDE


def missing_word(cell: CaseSummary | None, metric: str) -> str | None:
    """What stands where a point has no place on a logarithmic axis; None where it has one."""
    if cell is None:
        return "not run"
    value = cell.values.get(metric) if cell.usable else None
    if value is None:
        return "not measured" if cell.usable else case_word(cell)
    return None if value.median > 0 else f"{units.in_unit(0, units.metric_unit(metric))}"


def _runs_of(words: Sequence[str | None]) -> list[tuple[int, int, str]]:
    """Spans of neighbouring positions with the same word: first, last, word."""
    spans: list[tuple[int, int, str]] = []
    for position, word in enumerate(words):
        if word is None:
            continue
        if spans and spans[-1][1] == position - 1 and spans[-1][2] == word:
            spans[-1] = (spans[-1][0], position, word)
        else:
            spans.append((position, position, word))
    return spans


def nice_ticks(low: float, high: float, binary: bool) -> list[float]:
    """Between three and seven tick values within [low, high] for a logarithmic axis, round in the unit's own base."""
    base = 2.0 if binary else 10.0
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    if binary:
        steps: tuple[list[float], ...] = ([1.0], [1.0, 1.5], [1.0, 1.25, 1.5, 1.75])
    else:
        steps = ([1.0], [1.0, 3.0], [1.0, 2.0, 5.0], [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0])
    ticks: list[float] = []
    for mantissas in steps:
        ticks = [m * base**e for e in range(first, last + 1) for m in mantissas if low <= m * base**e <= high]
        if len(ticks) >= 3:
            break
    stride = math.ceil(len(ticks) / 7)
    return ticks[::stride]


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Room above and below, and never less than a factor of four: a small difference must look small."""
    low, high = min(values), max(values)
    if low < SMALLEST_DRAWN or high > LARGEST_DRAWN:
        raise ValueError(f"values from {low:.2g} to {high:.2g} fit on no axis")
    widen = max(1.0, math.sqrt(4.0 / (high / low)))
    pad = max((high / low) ** 0.06, 1.12)
    return low / widen / pad, high * widen * pad


def tick_text(value: float, metric: str) -> str:
    text = units.in_unit(value, units.metric_unit(metric))
    number, _, unit = text.partition(" ")
    return f"{float(number):g} {unit}"


def _missing_rows(facet: Facet, labels: Sequence[str], metric: str) -> list[tuple[tuple[str | None, ...], list[str]]]:
    """The lines of the strip: what is missing at which size, with the subjects that miss the same."""
    alike: dict[tuple[str | None, ...], list[str]] = {}
    for label in labels:
        alike.setdefault(tuple(missing_word(facet.cells.get((label, x)), metric) for x in facet.xs), []).append(label)
    return list(alike.items())


def _strip(
    axes: Any, rows: Sequence[tuple[tuple[str | None, ...], list[str]]], chosen: dict[str, Style], xs: Sequence[float]
) -> None:
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_axis_off()
    for position, (words, labels) in enumerate(rows):
        apart = min(0.035, 0.17 / len(labels))
        for place, label in enumerate(reversed(labels)):
            colour = SERIES.format(chosen[label].colour)
            axes.plot([-0.035 - place * apart], [position], transform=axes.get_yaxis_transform(), clip_on=False,
                      marker=chosen[label].marker, color=colour, markersize=4.5, linestyle="none")  # fmt: skip
        for first, last, word in _runs_of(words):
            if first != last:
                colour = SERIES.format(chosen[labels[0]].colour) if len(labels) == 1 else MUTED
                axes.plot([xs[first], xs[last]], [position, position], color=colour, linewidth=0.8, alpha=0.55)
            middle = math.sqrt(xs[first] * xs[last])
            edge = "right" if first == last == len(xs) - 1 else "left" if first == last == 0 else "center"
            axes.text(middle, position, word, ha=edge, va="center", fontsize=7, color=INK, parse_math=False,
                      bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1.2})  # fmt: skip


def panel(facet: Facet, labels: Sequence[str], metric: str, *, swept: str, chosen: dict[str, Style], prefix: str) -> str | None:
    """SVG text of one panel with the subjects `labels`, or None where none of them has a value.

    Whiskers are the range over trials. `prefix` must be unique on the page.
    """
    drawn = drawn_points(facet, labels, metric)
    if not drawn:
        return None
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    xs = [float(x) for x in facet.xs if x is not None]
    rows = _missing_rows(facet, [label for label in drawn if len(drawn[label]) < len(xs)], metric)
    with matplotlib.rc_context(settings(prefix)):
        strip = 0.17 * len(rows)
        height = 2.75 + strip
        figure = Figure(figsize=(WIDTH_IN, height))
        canvas = FigureCanvasSVG(figure)
        axes: Any = figure.add_axes((0.155, 0.46 / height, 0.82, 2.18 / height))
        beneath = {label: len(group) - 1 - i for group in coinciding(facet, labels, metric) for i, label in enumerate(group)}
        _lines(axes, drawn, metric, chosen, xs, beneath)
        axes.set_xlabel(plain_text(swept.replace("_", " ")), parse_math=False)
        axes.set_xlim(xs[0] / _x_pad(xs), xs[-1] * _x_pad(xs))
        if rows:
            above = figure.add_axes((0.155, 2.68 / height, 0.82, strip / height))
            above.set_xscale("log")
            above.set_xlim(axes.get_xlim())
            _strip(above, rows, chosen, xs)
        what = TITLES.get(metric, metric)
        return written(canvas, prefix, f"{what} against {swept}, {facet.title or 'one panel'}: {', '.join(drawn)}")


def _near(a: Sequence[tuple[float, Spread]], b: Sequence[tuple[float, Spread]]) -> bool:
    other = dict(b)
    shared = [(value.median, other[x].median) for x, value in a if x in other]
    return bool(shared) and all(abs(math.log(first) - math.log(second)) < SAME_LINE for first, second in shared)


def coinciding(facet: Facet, labels: Sequence[str], metric: str) -> list[list[str]]:
    """Groups of subjects whose lines cannot be told apart in the chart of `metric`, since all their shared points lie together."""
    drawn = drawn_points(facet, labels, metric)
    groups: list[list[str]] = []
    for label, points in drawn.items():
        home = next((group for group in groups if all(_near(points, drawn[other]) for other in group)), None)
        if home:
            home.append(label)
        else:
            groups.append([label])
    return [group for group in groups if len(group) > 1]


def drawn_points(facet: Facet, labels: Sequence[str], metric: str) -> dict[str, list[tuple[float, Spread]]]:
    found = {
        label: [
            (float(x), cell.values[metric])
            for x in facet.xs
            if x is not None and (cell := facet.cells.get((label, x))) is not None and missing_word(cell, metric) is None
        ]
        for label in labels
    }
    return {label: points for label, points in found.items() if points}


def spaced(xs: Sequence[float]) -> list[float]:
    """Sizes that are far enough apart on a logarithmic axis for their names, the largest one among them."""
    gap = math.log(xs[-1] / xs[0]) / MOST_SIZES_NAMED
    shown = [xs[-1]]
    for x in reversed(xs[:-1]):
        if math.log(shown[-1] / x) >= gap:
            shown.append(x)
    return shown[::-1]


def _x_pad(xs: Sequence[float]) -> float:
    return float((xs[-1] / xs[0]) ** 0.05) if len(xs) > 1 else 2.0


def _lines(
    axes: Any,
    drawn: dict[str, list[tuple[float, Spread]]],
    metric: str,
    chosen: dict[str, Style],
    xs: Sequence[float],
    beneath: dict[str, int],
) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    for label, points in drawn.items():
        style = chosen[label]
        colour = SERIES.format(style.colour)
        at = [x for x, _ in points]
        middle = [value.median for _, value in points]
        spans = [(x, v.low, v.high) for x, v in points if v.high > v.low > 0]
        if spans:
            axes.vlines(
                [s[0] for s in spans], [s[1] for s in spans], [s[2] for s in spans], color=colour, linewidth=3.2, alpha=0.35
            )
        # A line that lies under another one is drawn wider, so that both can be seen.
        wider = min(beneath.get(label, 0), 3) * 1.9
        axes.plot(at, middle, color=colour, linestyle=DASHES[style.dash], linewidth=1.5 + wider, marker=style.marker, markersize=5 + wider,
                  label=plain_text(label), markeredgecolor=CARD, markeredgewidth=0.7)  # fmt: skip
    everything = [n for points in drawn.values() for _, v in points for n in (v.median, v.low, v.high) if n > 0]
    low, high = limits(everything)
    axes.set_ylim(low, high)
    ticks = nice_ticks(low, high, METRICS[metric].unit == "byte" if metric in METRICS else False)
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FixedFormatter([tick_text(tick, metric) for tick in ticks]))
    axes.yaxis.set_minor_locator(NullLocator())
    shown = spaced(xs)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{x:g}" if x < 1e6 else units.rate(x, "") for x in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(True, which="major", color=GRID, linewidth=0.6, alpha=0.9)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
