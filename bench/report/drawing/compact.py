"""Takes out of matplotlib's SVG what no reader sees: groups that say nothing, invisible paths, spaces, and digits below a tenth of a point.

A page holds dozens of charts, and half of what matplotlib writes of one is this. What remains looks the same.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"<(/?)([\w:]+)((?:\s+[\w:-]+=\"[^\"]*\")*)\s*(/?)>")
_NUMBER = re.compile(r"-?\d+\.\d+")
_STYLE = re.compile(r' style="([^"]*)"')
_DEFINED = re.compile(r'<path id="([^"]+)"[^>]*? style="([^"]*)"')


def compact(svg: str, font_pt: float) -> str:
    """The drawing of an SVG, without what nobody sees. `font_pt` is the size of text that need not be said."""
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)
    svg = svg.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    svg = re.sub(r'<path d="[^"]*" style="fill: none"/>', "", svg)
    svg = re.sub(r'\bd="([^"]*)"', lambda found: f'd="{_path(found[1])}"', svg)
    svg = re.sub(r' (x|y)="(-?\d+\.\d+)"', lambda found: f' {found[1]}="{_short(found[2], 1)}"', svg)
    svg = _STYLE.sub(lambda found: _style(found[1], font_pt), svg)
    drawn = {ident: {one.partition(":")[0] for one in style.split(";")} for ident, style in _DEFINED.findall(svg)}
    svg = re.sub(r'(<use href="#([^"]+)"[^>]*?) style="([^"]*)"', lambda found: _use(found[1], found[3], drawn.get(found[2])), svg)
    svg = re.sub(r' clip-path="[^"]*"(?= style="fill:none;stroke:var\(--grid\))', "", svg)  # lines of a grid end at its edge
    names = {name: str(place) for place, name in enumerate(dict.fromkeys(re.findall(r'\bid="[^"]*?([mp][0-9a-f]{10})"', svg)))}
    svg = re.sub(r"\b[mp][0-9a-f]{10}\b", lambda found: names.get(found[0], found[0]), svg)
    return _ungrouped(svg).replace(" role=", f' font-size="{font_pt:g}" stroke-linejoin="round" role=', 1)


def _path(data: str) -> str:
    """Commands and numbers without spaces between, to a tenth of a point; a mark, which is small, to a hundredth."""
    places = 1 if any(abs(float(number)) > 12 for number in _NUMBER.findall(data)) else 2
    data = _NUMBER.sub(lambda found: _short(found[0], places), data)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", data).replace(" -", "-").strip()


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
