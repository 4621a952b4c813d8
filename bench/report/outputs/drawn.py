"""Every figure of a page as a file of its own, SVG and PNG, for papers, slides and mails: the same drawings in the page's light colours.

A figure of the page takes its colours from the page's style sheet, its patterns from the page, and its title and legend stand around it
there. Here matplotlib's figure gets all of them before it is written again. The same data give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from bench.lang import said, spoken
from bench.records import Result, Run
from bench.report.drawing.parts import HATCHES, colour_of
from bench.report.drawing.svg import CARD, GRID, INK, MUTED, PART, SERIES, observed, plain_text
from bench.report.numbers.layout import sections
from bench.report.numbers.summary import summarize

DOTS_PER_INCH = 200
_PLACE = re.compile(r"[a-z]+(\d+)-(\d+)")
_LONGEST_NAME = 70
_COLOURS = 8
_LEGEND_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Drawing:
    """One figure of a page."""

    id: str
    """Unique in the page; begins with the number of its run and of its section there."""
    label: str
    """What it shows, for those who cannot see it."""
    svg: str
    png: bytes


@contextmanager
def collected() -> Iterator[list[Drawing]]:
    """The figures that are drawn within, in their order."""
    found: list[Drawing] = []

    def see(figure: Any, ident: str, label: str) -> None:
        _complete(figure, label)
        svg, png = _written(figure)
        found.append(Drawing(ident, label, svg, png))

    with observed(see):
        yield found


def figure_files(drawings: Sequence[Drawing], runs: Sequence[Run], results: Sequence[Result]) -> dict[Path, bytes]:
    """Relative path to content: `<suite>/<workload>/<figure>.svg` and `.png`. Runs after the first of a suite have a number."""
    names: dict[tuple[int, int], Path] = {}
    seen: dict[str, int] = {}
    for number, run in enumerate(runs, 1):
        suite = _slug(run.suite)
        seen[suite] = seen.get(suite, 0) + 1
        folder = suite if seen[suite] == 1 else f"{suite}-{seen[suite]}"
        for position, section in enumerate(sections(run, summarize(run, results)), 1):
            names[number, position] = Path(folder) / _slug(section.workload)
    made: dict[Path, bytes] = {}
    for drawing in drawings:
        found = _PLACE.match(drawing.id)
        place = names.get((int(found[1]), int(found[2])), Path("other")) if found else Path("other")
        ident = drawing.id[found.end() :] if found else drawing.id
        stem = "-".join(filter(None, (_slug(drawing.label.partition(":")[0]), _slug(ident))))
        made[place / f"{stem}.svg"] = drawing.svg.encode()
        made[place / f"{stem}.png"] = drawing.png
    return made


@cache
def light_colours() -> Mapping[str, str]:
    """The colours of the page by daylight, by the names of its style sheet."""
    css = (files("bench.report") / "static" / "page.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", css[: css.index("}")]))


def _slug(text: str) -> str:
    """Letters and digits in lower case, with dashes between."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_NAME].strip("-")


# --- matplotlib's figure in real colours ----------------------------------------------------------------------------------------


@cache
def _real_colours() -> Mapping[str, str]:
    """What a placeholder stands for."""
    light = light_colours()
    named = {INK: light["ink"], GRID: light["grid"], MUTED: light["muted"], CARD: light["card"]}
    series = {SERIES.format(number): light[f"s{number}"] for number in range(_COLOURS)}
    parts = {PART.format(number): light[f"s{colour_of(number)}"] for number in range(len(HATCHES))}
    return {**named, **series, **parts}


def _complete(figure: Any, label: str) -> None:
    """Gives the figure its colours, a title and, where its lines have no names beside them, a legend, in the language that is spoken."""
    from matplotlib.text import Text

    from bench.lang.fonts import families

    fonts = families()
    for text in figure.findobj(Text) if spoken() is not None else ():
        text.set(text=said(text.get_text()), fontfamily=fonts)
    for artist in figure.findobj():
        _recolour(artist)
        box = artist.get_bbox_patch() if hasattr(artist, "get_bbox_patch") else None
        if box is not None:
            _recolour(box)
    figure.set_facecolor(light_colours()["card"])
    high = figure.get_size_inches()[1]
    handles, names = figure.axes[0].get_legend_handles_labels() if figure.axes else ([], [])
    top = 1 + 0.08 / high
    if handles:
        legend = figure.legend(
            handles, [said(name) for name in names], loc="lower left", bbox_to_anchor=(0.0, top), ncols=_LEGEND_COLUMNS,
            frameon=False, borderaxespad=0, labelcolor=light_colours()["ink"], handlelength=3.2,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set(parse_math=False, fontfamily=fonts)
        top += (0.19 * -(-len(names) // _LEGEND_COLUMNS) + 0.1) / high
    title = plain_text(label.partition(":")[0])
    own = said(title)
    figure.text(
        0.0, top, own if own != title else title[:1].upper() + title[1:], color=light_colours()["ink"],
        weight="bold" if spoken() is None else "normal", fontfamily=fonts, parse_math=False, va="bottom",
    )  # fmt: skip


def _written(figure: Any) -> tuple[str, bytes]:
    """SVG and PNG with all that stands around."""
    svg, png = io.StringIO(), io.BytesIO()
    whole = {"bbox_inches": "tight", "pad_inches": 0.12, "facecolor": figure.get_facecolor()}
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}, **whole)
    figure.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None}, **whole)
    return svg.getvalue(), png.getvalue()


def _recolour(artist: Any) -> None:
    from matplotlib.patches import Patch

    if isinstance(artist, Patch):
        _hatch(artist)
    for name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
        read, write = (getattr(artist, f"{verb}_{name}", None) for verb in ("get", "set"))
        if read is not None and write is not None:
            found = _real(read())
            if found is not None:
                write(found)


def _hatch(patch: Any) -> None:
    """A part of a whole is told by its strokes as well."""
    from matplotlib.colors import to_hex

    numbers = {PART.format(number): number for number in range(len(HATCHES))}
    number = numbers.get(to_hex(patch.get_facecolor()))
    if number is not None and HATCHES[number]:
        patch.set_hatch(HATCHES[number])
        if patch.get_edgecolor()[3] == 0:
            # The strokes have the colour of the edge.
            patch.set(edgecolor=light_colours()["card"], linewidth=0)


def _real(colours: Any) -> Any:
    """The real colours of one, or of a list of them; None where none of them is a placeholder."""
    from matplotlib.colors import to_hex, to_rgba, to_rgba_array

    if isinstance(colours, str) and colours.lower() in ("none", "auto"):
        return None
    given = to_rgba_array(colours)
    made = [(*to_rgba(_real_colours().get(to_hex(one), one))[:3], one[3]) for one in given.tolist()]
    if not made or all(to_hex(one) not in _real_colours() for one in given.tolist()):
        return None
    return made[0] if isinstance(colours, str) or getattr(colours, "ndim", 1) == 1 else made
