"""Draws strips by hand: a line of marks for each subject on one logarithmic axis, its name on the left and its numbers on the right.

For charts whose message is where marks lie, such as an error beside its limit or the largest size that fits. By hand and not by
matplotlib, since such a strip takes a kilobyte and a page may hold dozens.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.report.drawing.callouts import cut
from bench.report.drawing.figures import nice_ticks

WIDTH, ROW, TOP, BOTTOM = 640, 22, 16, 26
CHARACTER = 7.2
"""Pixels for one character at the size of the text."""
LONGEST_NAME = 26
FULL, HOLLOW, WALL, BAR = "full", "hollow", "wall", "bar"
"""Kinds of marks: a dot, a ring, a triangle for what does not go, a span between two values."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark at `value`; a bar reaches to `until`."""

    kind: str
    value: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """One subject: marks, the colour of its series, and numbers in words."""

    name: str
    marks: tuple[Mark, ...]
    words: str
    colour: int
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A vertical line through all strips, with what it means."""

    value: float
    words: str


def strips(
    rows: Sequence[Strip], *, title: str, tick: Callable[[float], str], lines: Sequence[Line] = (), binary: bool = False
) -> str | None:
    """SVG text; None where no mark can be drawn. Values are above zero; others are left out (their words stay)."""
    values = [v for row in rows for mark in row.marks for v in (mark.value, mark.until) if v is not None and v > 0]
    values += [line.value for line in lines]
    if not values or not any(row.marks for row in rows):
        return None
    low, high = min(values), max(values)
    pad = max((high / low) ** 0.05, 1.3)
    low, high = low / pad, high * pad
    names = [row.name for row in rows]
    shown = [cut(name, names, LONGEST_NAME) for name in names]
    left = max(map(len, shown)) * CHARACTER + 14
    right = max(len(row.words) for row in rows) * CHARACTER * 0.92 + 12
    width = max(WIDTH, left + right + 160)
    height = TOP + ROW * len(rows) + BOTTOM
    span = width - left - right

    def x(value: float) -> float:
        return round(left + span * (math.log(value / low) / math.log(high / low)), 1)

    floor = TOP + ROW * len(rows)
    ticks = _ticks(low, high, binary, span)
    middles = [TOP + ROW * position + ROW // 2 for position in range(len(rows))]
    grid = [f"M{x(value):g} {TOP - 4}V{floor}" for value in ticks] + [f"M{left:.0f} {y}H{left + span:.0f}" for y in middles]
    # A group, not one picture: its words are read as words.
    parts = [f'<svg class="strips" viewBox="0 0 {width:.0f} {height}" role="group" aria-label="{html.escape(title, quote=True)}">']
    parts.append(f'<path class="grid" d="{"".join(grid)}"/>')
    for value in ticks:
        parts.append(f'<text x="{x(value):g}" y="{floor + 15}" style="text-anchor:middle">{html.escape(tick(value))}</text>')
    for line in lines:
        at = x(line.value)
        anchor = "end" if at > left + span * 0.7 else "start"
        parts.append(f'<path class="limit" d="M{at:g} {TOP - 4}V{floor}"/>')
        parts.append(
            f'<text x="{at + (-3 if anchor == "end" else 3):g}" y="{TOP - 5}" style="text-anchor:{anchor}">{html.escape(line.words)}</text>'
        )
    for y, row, name in zip(middles, rows, shown, strict=True):
        weight = ";font-weight:700" if row.bold else ""
        parts.append(f'<text x="{left - 8:.0f}" y="{y + 4}" style="text-anchor:end{weight}">{html.escape(name)}</text>')
        parts += [_mark(mark, x, y, row.colour) for mark in row.marks if mark.value > 0]
        parts.append(f'<text x="{left + span + 8:.0f}" y="{y + 4}">{html.escape(row.words)}</text>')
    return "".join([*parts, "</svg>"])


def _ticks(low: float, high: float, binary: bool, span: float) -> list[float]:
    ticks = nice_ticks(low, high, binary)
    return ticks[:: max(1, math.ceil(len(ticks) * 62 / span))]


def _mark(mark: Mark, x: Callable[[float], float], y: int, colour: int) -> str:
    at = x(mark.value)
    if mark.kind == BAR and mark.until:
        return f'<path d="M{at:g} {y}H{x(mark.until):g}" style="stroke:var(--s{colour});stroke-width:6;stroke-opacity:.4"/>'
    if mark.kind == WALL:
        return f'<path d="M{at - 5:g} {y + 5}l5-10 5 10z" style="fill:var(--card);stroke:var(--bad);stroke-width:1.4"/>'
    fill = "var(--card)" if mark.kind == HOLLOW else f"var(--s{colour})"
    return f'<circle cx="{at:g}" cy="{y}" r="4.2" style="fill:{fill};stroke:var(--s{colour});stroke-width:1.3"/>'
