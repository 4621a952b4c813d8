"""Draws the memory of one step over its time as a stacked area by cause, with the phases marked and the peak named.

Drawn by hand and not by matplotlib: a staircase of a hundred moments takes a few kilobytes, and many rows may open one.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from bench.report.drawing.parts import WORDS, number
from bench.report.numbers import units
from bench.report.numbers.memory import CAUSES, Explained, Moment

WIDTH, HEIGHT = 700, 200
LEFT, TOP, BOTTOM = 70, 22, 24
FEWEST_MOMENTS = 3
NARROWEST_NAME = 46
"""Pixels that a phase must last to be named where it begins."""


def timeline(found: Explained, *, title: str) -> str | None:
    """SVG text, or None with too few moments to be a curve. The area is what was alive, up to the highest moment that was kept."""
    moments = found.timeline
    highest = max((sum(moment.alive.values()) for moment in moments), default=0.0)
    begin, end = (moments[0].at_s, moments[-1].at_s) if moments else (0.0, 0.0)
    if len(moments) < FEWEST_MOMENTS or highest <= 0 or end <= begin:
        return None
    across, up = (WIDTH - LEFT) / (end - begin), (HEIGHT - TOP - BOTTOM) / highest

    def x(at_s: float) -> int:
        return round(LEFT + (at_s - begin) * across)

    def y(size: float) -> int:
        return round(HEIGHT - BOTTOM - size * up)

    present = [cause for cause in CAUSES if any(moment.alive.get(cause) for moment in moments)]
    areas = []
    for last in range(len(present), 0, -1):
        path = _staircase([(x(m.at_s), y(sum(m.alive.get(cause, 0.0) for cause in present[:last]))) for m in moments], y(0))
        areas.append(f'<path d="{path}" fill="url(#part{number(present[last - 1])})"/>')
    peak = max(moments, key=lambda moment: sum(moment.alive.values()))
    label = f"{title}: {units.size(highest)} at most, in {peak.phase or 'no phase'}"
    parts = [
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label, quote=True)}">',
        *areas,
        *_axis(highest, y),
        *_phases(moments, x),
        f'<path class="peak" d="M{x(peak.at_s)} {TOP - 4}V{HEIGHT - BOTTOM}"/>',
        f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">{units.seconds(end - begin)} under the profiler</text>',
        "</svg>",
    ]
    return "".join(parts)


def legend(found: Explained) -> tuple[tuple[int, str], ...]:
    """Pattern and name of each cause that is drawn, as they lie from below to above."""
    return tuple((number(cause), WORDS[cause]) for cause in CAUSES if any(moment.alive.get(cause) for moment in found.timeline))


def _staircase(points: Sequence[tuple[int, int]], floor: int) -> str:
    """A closed path under steps that begin at each point, in relative whole pixels."""
    at_x, at_y = points[0]
    path = [f"M{at_x} {floor}V{at_y}"]
    for to_x, to_y in points[1:]:
        if to_x != at_x:
            path.append(f"h{to_x - at_x}")
        if to_y != at_y:
            path.append(f"v{to_y - at_y}")
        at_x, at_y = to_x, to_y
    return "".join(path) + f"V{floor}z"


def _axis(highest: float, y: Callable[[float], int]) -> list[str]:
    lines = []
    for share in (0.0, 0.5, 1.0):
        at = y(highest * share)
        lines.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{units.size(highest * share)}</text>')
    return lines


def _phases(moments: Sequence[Moment], x: Callable[[float], int]) -> list[str]:
    begins = [(x(m.at_s), m.phase) for i, m in enumerate(moments) if m.phase and (i == 0 or moments[i - 1].phase != m.phase)]
    lines = []
    for position, (at, name) in enumerate(begins):
        until = begins[position + 1][0] if position + 1 < len(begins) else WIDTH
        lines.append(f'<path class="phase" d="M{at} {TOP - 8}V{HEIGHT - BOTTOM}"/>')
        if until - at >= NARROWEST_NAME:
            lines.append(f'<text x="{at + 4}" y="{TOP - 9}">{html.escape(name[: (until - at) // 7])}</text>')
    return lines
