"""Two pages held against each other piece by piece: what one says, and where it says something else than the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html.parser import HTMLParser
from itertools import zip_longest

from bench.report.recompute.former import begins

MOST_TO_ALIGN = 3_000
"""Pieces beyond what is alike at beginning and end that are aligned by whatever is the same."""
LONGEST_WHERE = 60
FOREIGN = frozenset(("template", "noscript", "dialog", "iframe", "object", "embed", "textarea", "select", "math", "base"))
"""Elements that no page of ours has."""


def differences(printed: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Where, as printed, as it has to be; empty where one of the two says nothing."""
    begin = _alike(printed, right)
    end = min(_alike(printed[::-1], right[::-1]), len(printed) - begin, len(right) - begin)
    own, other = printed[begin : len(printed) - end], right[begin : len(right) - end]
    # Of very many pieces those that are everywhere, such as a dash, are no marks to align by, and would cost minutes.
    matched = SequenceMatcher(None, own, other, autojunk=len(own) + len(other) > MOST_TO_ALIGN).get_opcodes()
    changes = [(first, last, start, stop) for what, first, last, start, stop in matched if what != "equal"]
    for first, last, start, stop in changes:
        at = begin + start
        where = f"after {right[at - 1][:LONGEST_WHERE]!r}" if 0 < at <= len(right) else "at the beginning"
        pairs = zip_longest(own[first:last], other[start:stop], fillvalue="")
        yield from ((where, here, there) for here, there in pairs if here != there and not begins(here, there))


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    """How many are the same from the beginning on."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(some), len(others)))


def texts(page: str) -> list[str]:
    """All that a reader sees of a small page, piece by piece, its title first, and what is hidden or foreign there, as tags."""
    reader = _Texts()
    reader.feed(page)
    reader.close()
    return [piece for one in reader.pieces if (piece := " ".join(one.split()))]


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = [""]
        self._silent = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent = tag in ("script", "style")
        dress = [f"{name}={value}" for name, value in attrs if name in ("hidden", "style")]
        if dress or tag in FOREIGN:
            self.pieces.append(f"<{' '.join((tag, *dress))}>")
        self.pieces.append("")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False
        self.pieces.append("")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.pieces[-1] += data
