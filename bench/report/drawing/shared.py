"""Says once what many drawings of a page repeat: how lines, fills and words look as classes, and marks as one definition for all.

A page holds dozens of drawings, whose looks are a few dozen. Nothing that is seen changes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

_DRAWING = re.compile(r"<svg [^>]*>.*?</svg>", re.S)
_TAG = re.compile(r"<[a-z][^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>")
"""Text within a drawing holds no `<`, so what matches is a tag; a `>` may stand in what an attribute says."""
_STYLE = re.compile(r' style="([^"]*)"')
_MARK = re.compile(r'<defs><path id="([^"]+)" (d="[^"]*"[^>]*)/></defs>')
_USE = re.compile(r'<use href="#([^"]+)"')
LEAST = 3
"""A look that is as rare as this or rarer stays where it is."""


@dataclass(slots=True)
class _Found:
    """What was found on a page."""

    styles: dict[str, str] = field(default_factory=dict)
    """Look to class."""
    marks: dict[str, str] = field(default_factory=dict)
    """What a mark is to its id."""


def shared(page: str, *, style_end: str, marks_end: str) -> str:
    """The page with its drawings' repeated looks in its style sheet and their marks among its definitions.

    `style_end` and `marks_end` are where these two end: each must be in the page, and only the first of them counts.
    """
    drawings = _DRAWING.findall(page)
    counts = Counter(style for drawing in drawings for tag in _TAG.findall(drawing) for style in _STYLE.findall(tag))
    found = _Found({style: f"z{_short(place)}" for place, style in enumerate(one for one, n in counts.items() if n > LEAST)})
    page = _DRAWING.sub(lambda drawing: _thin(drawing[0], found), page)
    rules = "".join(f".{name}{{{style}}}" for style, name in found.styles.items())
    marks = "".join(f'<path id="{ident}" {drawn}/>' for drawn, ident in found.marks.items())
    return page.replace(style_end, rules + style_end, 1).replace(marks_end, marks + marks_end, 1)


def _thin(drawing: str, found: _Found) -> str:
    drawing = _TAG.sub(lambda tag: _STYLE.sub(lambda style: _classed(style, found), tag[0]), drawing)
    names: dict[str, str] = {}
    for own, drawn in _MARK.findall(drawing):
        names[own] = found.marks.setdefault(drawn, f"k{_short(len(found.marks))}")
    drawing = _MARK.sub("", drawing)
    return _USE.sub(lambda use: f'<use href="#{names.get(use[1], use[1])}"', drawing)


def _classed(style: re.Match[str], found: _Found) -> str:
    name = found.styles.get(style[1])
    return style[0] if name is None else f' class="{name}"'


def _short(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while True:
        number, last = divmod(number, len(digits))
        text = digits[last] + text
        if not number:
            return text
