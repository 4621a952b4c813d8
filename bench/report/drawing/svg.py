"""Turns a matplotlib figure into an SVG that belongs to the page: text stays text, and every colour is one of the page's own.

Colours are drawn as placeholders and then replaced by CSS variables, so that one figure serves light, dark and print. Ids are made
unique to the figure, since many share one page.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from bench.report.drawing.compact import compact

INK, GRID, MUTED, CARD = "#5e5000", "#5e5001", "#5e5002", "#5e5003"
SERIES = "#5e51{:02x}"
PART = "#5e52{:02x}"
"""A part of a whole: a colour with a pattern, both defined once on the page."""

_PLACEHOLDER = re.compile(r"#5e5(0|1)([0-9a-f]{2})")
_PART = re.compile(r"#5e52([0-9a-f]{2})")
_NAMED = {"00": "var(--ink)", "01": "var(--grid)", "02": "var(--muted)", "03": "var(--card)"}

WIDTH_IN = 4.6
FONT_PT = 7.6
CHARACTER_IN = 0.07
"""Room for one character of a name, in a wide sans-serif face: at `FONT_PT`, and still at the larger size that narrow screens get."""


Observer = Callable[[Any, str, str], None]
"""Is told of a figure of matplotlib, its prefix and its label."""
_OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Within it `observer` sees each figure once it is written, and may keep or change it."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def settings(prefix: str) -> dict[str, Any]:
    """matplotlib's settings for a figure of the page; `prefix` makes the ids of its parts its own, and always the same."""
    return {
        "svg.fonttype": "none", "svg.hashsalt": prefix, "font.size": FONT_PT, "font.family": "DejaVu Sans", "text.color": INK,
        "axes.edgecolor": GRID, "axes.labelcolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED, "axes.linewidth": 0.8,
        "xtick.major.size": 0, "xtick.major.pad": 6, "ytick.major.size": 0, "figure.facecolor": "none", "axes.facecolor": "none",
        "savefig.facecolor": "none", "lines.scale_dashes": False,
    }  # fmt: skip


def plain_text(text: str) -> str:
    """`text` in characters that every font has."""
    return text.encode("ascii", "replace").decode()


def written(canvas: Any, prefix: str, label: str) -> str:
    """The SVG of a drawn canvas, with `label` for those who cannot see it."""
    out = io.StringIO()
    canvas.print_svg(out, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = _as_css(out.getvalue(), prefix, label)
    if (observer := _OBSERVER.get()) is not None:
        observer(canvas.figure, prefix, label)
    return svg


def _as_css(svg: str, prefix: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = _PLACEHOLDER.sub(lambda m: _NAMED[m[2]] if m[1] == "0" else f"var(--s{int(m[2], 16)})", svg)
    svg = re.sub(r'\bid="(?!m[0-9a-f]{10}|p[0-9a-f]{10})[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = _PART.sub(lambda m: f"url(#part{int(m[1], 16)})", svg)
    svg = re.sub(r"font: (?:\w+ )?([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r"font-family: [^;\"]*;?", "", svg)
    svg = re.sub(r"(\d+\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg).replace("<g >", "<g>")
    svg = re.sub(
        r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" role="img" xmlns:xlink="http://www.w3.org/1999/xlink">', svg
    )
    svg = compact(svg.strip(), FONT_PT)
    return svg.replace('role="img"', f'role="img" aria-label="{html.escape(label, quote=True)}"', 1)
