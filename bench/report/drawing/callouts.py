"""Names of marks right of the axes, each at the height of its mark and joined to it, moved apart where they collide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.report.drawing.figures import Style
from bench.report.drawing.svg import INK, SERIES, plain_text

LABEL_GAP = 0.062
"""Least distance of two names, as a share of the height of the axes."""
BOTTOM, TOP = 0.02, 0.98
"""Between which names stand, as shares of the height of the axes; more than fit there reach below."""
LONGEST = 18


def call_out(axes: Any, marks: Mapping[str, tuple[float, float]], chosen: dict[str, Style]) -> None:
    """Names the marks, given as label to (x, y), of a figure whose axes are both logarithmic and have their limits."""
    (left, right), (bottom, top) = (tuple(map(math.log, limits)) for limits in (axes.get_xlim(), axes.get_ylim()))
    ordered = sorted((((math.log(y) - bottom) / (top - bottom)), label, x) for label, (x, y) in marks.items())
    heights = _placed([height for height, _, _ in ordered], LABEL_GAP)
    for (height, label, x), at in zip(ordered, heights, strict=True):
        colour = SERIES.format(chosen[label].colour)
        start = (math.log(x) - left) / (right - left)
        axes.plot(
            [start + 0.015, 1.025], [height, at], transform=axes.transAxes, color=colour, linewidth=0.6, alpha=0.6, clip_on=False
        )
        axes.plot([1.045], [at], transform=axes.transAxes, color=colour, marker=chosen[label].marker, markersize=4.2, clip_on=False)
        axes.text(
            1.075, at, plain_text(cut(label, marks, LONGEST)), transform=axes.transAxes, va="center", color=INK, parse_math=False
        )


def cut(label: str, others: Iterable[str], longest: int) -> str:
    """The beginning of a long name, or its end where another one begins alike; without a `slot=` that all of several have."""
    others = list(others)
    slot = label.partition("=")[0] + "="
    if len(others) > 1 and all(other.startswith(slot) for other in others):
        label, others = label.removeprefix(slot), [other.removeprefix(slot) for other in others]
    if len(label) <= longest:
        return label
    begin = label[: longest - 1]
    alike = any(other != label and other[: longest - 1] == begin for other in others)
    return f"~{label[1 - longest :]}" if alike else f"{begin}~"


def _placed(wanted: Sequence[float], gap: float) -> list[float]:
    """Heights near `wanted` (ascending) that keep `gap` between neighbours: pushed up, and down again below what would stick out."""
    placed: list[float] = []
    for height in wanted:
        placed.append(max(height, placed[-1] + gap if placed else BOTTOM))
    above = TOP + gap
    for place in reversed(range(len(placed))):
        above = placed[place] = min(placed[place], above - gap)
    return placed
