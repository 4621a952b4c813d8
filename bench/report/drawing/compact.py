"""Takes out of matplotlib's SVG what no reader sees: groups that say nothing, invisible paths, spaces, and digits below a tenth of a point.

A page holds dozens of charts, and half of what matplotlib writes of one is this. What remains looks the same.
"""

from __future__ import annotations

import re

from bench.report.drawing.paths import is_boxes, points_of, shorter

_TOKEN = re.compile(r"<(/?)([\w:]+)((?:\s+[\w:-]+=\"[^\"]*\")*)\s*(/?)>")
_STYLE = re.compile(r' style="([^"]*)"')
_DEFINED = re.compile(r'<path id="([^"]+)"[^>]*? style="([^"]*)"')
_FONT_SIZE = re.compile(r' style="font-size:([\d.]+)px;?([^"]*)"')
_CLIP = re.compile(r'<clipPath id="([^"]+)"><rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"/></clipPath>')
_GRID_LINE = re.compile(r'<path d="([^"]*)"( style="fill:none;stroke:var\(--grid\);stroke-opacity:[^"]*")/>')
_ALIKE = re.compile(r'<path d="([^"]*)"([^>]*)/>((?:<path d="[^"]*"\2/>)+)')
_EDGE = 1.0
"""Points by which a line may be wider than what it is cut off at."""
Borders = tuple[float, float, float, float]
"""Left, top, right and bottom."""


def compact(svg: str, font_pt: float) -> str:
    """The drawing of an SVG, without what nobody sees. `font_pt` is the size of text that need not be said."""
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)
    svg = svg.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    svg = re.sub(r'<path d="[^"]*" style="fill: none"/>', "", svg)
    svg = re.sub(r'\bd="([^"]*)"', lambda found: f'd="{shorter(found[1])}"', svg)
    svg = re.sub(r'<path d=""[^>]*/>', "", svg)
    svg = re.sub(r' (x|y)="(-?\d+\.\d+)"', lambda found: f' {found[1]}="{_short(found[2], 1)}"', svg)
    svg = _STYLE.sub(lambda found: _style(found[1], font_pt), svg)
    drawn = {ident: {one.partition(":")[0] for one in style.split(";")} for ident, style in _DEFINED.findall(svg)}
    svg = re.sub(r'(<use href="#([^"]+)"[^>]*?) style="([^"]*)"', lambda found: _use(found[1], found[3], drawn.get(found[2])), svg)
    svg = re.sub(r' clip-path="[^"]*"(?= style="fill:none;stroke:var\(--grid\))', "", svg)  # lines of a grid end at its edge
    names = {name: str(place) for place, name in enumerate(dict.fromkeys(re.findall(r'\bid="[^"]*?([mp][0-9a-f]{10})"', svg)))}
    svg = re.sub(r"\b[mp][0-9a-f]{10}\b", lambda found: names.get(found[0], found[0]), svg)
    svg = _FONT_SIZE.sub(lambda found: f' font-size="{found[1]}"' + (f' style="{found[2]}"' if found[2] else ""), svg)
    svg = _joined(_ungrouped(_unclipped(_ungrouped(svg))))
    return svg.replace(" role=", f' font-size="{font_pt:g}" stroke-linejoin="round" role=', 1)


def _short(number: str, places: int) -> str:
    text = f"{float(number):.{places}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _style(text: str, font_pt: float) -> str:
    parts = [re.sub(r"\b0\.", ".", part.strip().replace(": ", ":", 1)) for part in text.split(";") if part.strip()]
    kept = [part for part in parts if part not in (f"font-size:{font_pt:g}px", "stroke-linecap:square", "text-anchor:start")]
    return f' style="{";".join(kept)}"' if kept else ""


def _use(before: str, style: str, defined: set[str] | None) -> str:
    """What the mark that is used says itself need not be said of it again."""
    kept = [part for part in style.split(";") if defined is None or part.partition(":")[0] not in defined]
    return f'{before} style="{";".join(kept)}"' if kept else before


def _unclipped(svg: str) -> str:
    """Without the borders of what does not reach beyond them."""
    for ident, *numbers in _CLIP.findall(svg):
        x, y, width, height = map(float, numbers)
        borders = (x - _EDGE, y - _EDGE, x + width + _EDGE, y + height + _EDGE)
        cut = f' clip-path="url(#{ident})"'

        def freed(found: re.Match[str], borders: Borders = borders, cut: str = cut) -> str:
            return found[0].replace(cut, "") if _is_inside(found, borders) else found[0]

        svg = re.sub(rf'<(?:path d="([^"]*)"|g){re.escape(cut)}[^>]*>((?:<use [^>]*/>)*)', freed, svg)
        if cut not in svg:
            svg = re.sub(rf'(<defs>)?<clipPath id="{re.escape(ident)}">.*?</clipPath>(?(1)</defs>)', "", svg, flags=re.S)
    return svg


def _is_inside(found: re.Match[str], borders: Borders) -> bool:
    """Of a path all its points, of a group the places of the marks that it holds."""
    if found[1] is not None:
        points = points_of(found[1])
    else:
        points = [(float(x), float(y)) for x, y in re.findall(r' x="([^"]+)" y="([^"]+)"', found[2])]
    left, top, right, bottom = borders
    return bool(points) and all(left <= x <= right and top <= y <= bottom for x, y in points)


def _joined(svg: str) -> str:
    """Lines of a grid, which lie below all else, as one path each kind; so too boxes and lines that follow each other and look the same."""
    lines: dict[str, list[str]] = {}
    for found in _GRID_LINE.finditer(svg):
        lines.setdefault(found[2], []).append(found[1])
    svg = _GRID_LINE.sub(lambda found: f'<path d="{"".join(lines.pop(found[2]))}"{found[2]}/>' if found[2] in lines else "", svg)
    return _ALIKE.sub(_as_one, svg)


def _as_one(found: re.Match[str]) -> str:
    data = [found[1], *re.findall(r'<path d="([^"]*)"', found[3])]
    if "fill:none" not in found[2] and not all(map(is_boxes, data)):
        return found[0]
    return f'<path d="{"".join(data)}"{found[2]}/>'


def _ungrouped(svg: str) -> str:
    """Without groups that have no attribute, or no content, and without spaces between elements."""
    made: list[str] = []
    groups: list[bool] = []
    at = 0
    for found in _TOKEN.finditer(svg):
        made.append(svg[at : found.start()].strip("\n"))
        at = found.end()
        closing, tag, attributes, alone = found.groups()
        if tag == "g":
            if closing:
                kept = groups.pop()
            else:
                kept = bool(attributes)
                if not alone:
                    groups.append(kept)
            if not kept or alone:
                continue
        made.append(found[0])
    made.append(svg[at:])
    svg = "".join(made)
    return re.sub(r"<defs></defs>|(?<=>)\s*\n\s*(?=<)", "", svg)
