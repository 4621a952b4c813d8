"""Small pictures for a table's cells, each an SVG of a few lines: an interval with its band, process medians, a series over its nights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.verdict import Verdict

WIDTH, HEIGHT = 180, 22
SPARK_WIDTH = 120
LEAST_SPAN = math.log(1.05)
MOST_SPAN = math.log(4)
"""What lies beyond a factor of four is drawn at the edge."""
_TICKS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Forest:
    """The common scale of all rows: ±`span` in logarithms of the ratio."""

    span: float

    @classmethod
    def of(cls, verdicts: Sequence[Verdict]) -> Forest:
        """Wide enough for every interval and band, within a factor of four."""
        edges = [LEAST_SPAN]
        for verdict in verdicts:
            edges += [abs(math.log(edge)) for edge in _edges(verdict) if edge > 0]
            if verdict.threshold is not None:
                edges.append(math.log1p(verdict.threshold.relative))
        return cls(min(MOST_SPAN, 1.08 * max(edges)))

    def x(self, ratio: float) -> float:
        """Where a ratio lies, in pixels."""
        place = max(-1.0, min(1.0, math.log(ratio) / self.span)) if ratio > 0 else -1.0
        return 8 + (place + 1) / 2 * (WIDTH - 16)

    def scale(self) -> str:
        """The axis above the rows."""
        fitting = [tick for tick in _TICKS if math.log(tick) < 0.92 * self.span]
        tick = fitting[-1] if fitting else 1.0
        parts = [_text(self.x(value), 14, f"{value:.3g}×") for value in dict.fromkeys((1 / tick, 1.0, tick))]
        return _svg(WIDTH, 18, "ratio of second over first", parts)


def _edges(verdict: Verdict) -> tuple[float, ...]:
    if verdict.ratio is None:
        return ()
    interval = verdict.ratio.interval
    return (verdict.ratio.value,) if interval is None else (verdict.ratio.value, interval.low, interval.high)


def forest_row(forest: Forest, verdict: Verdict) -> str:
    """The band as a grey field, the 99 % interval as a line, the ratio as a dot."""
    if verdict.ratio is None:
        return ""
    middle = HEIGHT / 2
    parts = []
    if verdict.threshold is not None:
        low, high = forest.x(1 / (1 + verdict.threshold.relative)), forest.x(1 + verdict.threshold.relative)
        parts.append(f'<rect class="band" x="{low:.1f}" y="1" width="{max(1.0, high - low):.1f}" height="{HEIGHT - 2}"/>')
    parts.append(f'<line class="one" x1="{forest.x(1):.1f}" x2="{forest.x(1):.1f}" y1="0" y2="{HEIGHT}"/>')
    if verdict.ratio.interval is not None:
        low, high = forest.x(verdict.ratio.interval.low), forest.x(verdict.ratio.interval.high)
        parts.append(f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>')
    parts.append(f'<circle class="dot" cx="{forest.x(verdict.ratio.value):.1f}" cy="{middle}" r="3.5"/>')
    label = " to ".join(f"{edge:.3f}" for edge in sorted(_edges(verdict))[:: max(1, len(_edges(verdict)) - 1)])
    return _svg(WIDTH, HEIGHT, f"ratio {label}", parts)


def dots(first: Sequence[float], second: Sequence[float]) -> str:
    """The medians of processes: the first side above, the second below, on a common scale."""
    values = [*first, *second]
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return 5 + (value - low) / span * (SPARK_WIDTH - 10)

    parts = [f'<circle class="old" cx="{x(value):.1f}" cy="7" r="2.5"/>' for value in first]
    parts += [f'<circle class="dot" cx="{x(value):.1f}" cy="16" r="2.5"/>' for value in second]
    return _svg(SPARK_WIDTH, HEIGHT, f"{len(first)} processes above, {len(second)} below", parts)


def sparkline(values: Sequence[float], steps: Sequence[int]) -> str:
    """A series over its nights, with a line where its level changes; the last night as a dot."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def x(place: float) -> float:
        return 4 + place / max(1, len(values) - 1) * (SPARK_WIDTH - 8)

    def y(value: float) -> float:
        return HEIGHT - 4 - (value - low) / span * (HEIGHT - 8)

    points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(values))
    parts = [f'<line class="step" x1="{x(place - 0.5):.1f}" x2="{x(place - 0.5):.1f}" y1="0" y2="{HEIGHT}"/>' for place in steps]
    parts.append(f'<polyline class="line" points="{points}"/>')
    parts.append(f'<circle class="dot" cx="{x(len(values) - 1):.1f}" cy="{y(values[-1]):.1f}" r="2.5"/>')
    changes = f", its level changes {len(steps)} times" if steps else ""
    return _svg(SPARK_WIDTH, HEIGHT, f"{len(values)} nights{changes}", parts)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.0f}" text-anchor="middle">{text}</text>'


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
