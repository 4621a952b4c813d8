"""Leaves out of a page what HTML lets one leave out: end tags that follow from what comes next, and quotes around plain values.

For pages that must be small; a browser and `bench verify` read the same from them. It knows the HTML that our templates write, where text
holds no `<`, and touches nothing within scripts, styles and preformatted text.
"""

from __future__ import annotations

import re

_KEPT = re.compile(r"(<(script|style|pre)\b.*?</\2>)", re.S)
_FOLLOWS = re.compile(r"</(?:td|th|tr|li|dt|dd|thead|tbody)>\s*")
_BLOCKS = "div|details|section|table|tbody|thead|tr|ul|ol|dl|li|p|h2|h3|h4|article|main|header"
_BETWEEN = re.compile(rf"(?<=>)\s*\n\s*(?=</?(?:{_BLOCKS})\b)")
_TAG = re.compile(r"<[a-z][^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>")
_PLAIN = re.compile(r" (?!id=)([a-z][a-z0-9-]*)=\"([A-Za-z0-9_.#%:-]+)\"(?=[ >])")


def thin(page: str) -> str:
    """The page with fewer bytes."""
    pieces = _KEPT.split(page)
    # Each piece that is kept is followed by the name of its element.
    return "".join(_thinner(piece) if place % 3 == 0 else piece for place, piece in enumerate(pieces) if place % 3 != 2)


def _thinner(html: str) -> str:
    html = _BETWEEN.sub("", _FOLLOWS.sub("", html))
    return _TAG.sub(lambda tag: _PLAIN.sub(r" \1=\2", tag[0]), html)
