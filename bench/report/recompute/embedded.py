"""What pages of claims and of comparisons hold for `bench verify`: their numbers as packed JSON, and marked rows that state them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser

from bench.records import Json
from bench.report.recompute.stated import ATTRIBUTE

FINDINGS, VERDICTS = "findings", "verdicts"
"""The ids of the elements: of a page of claims, and of one of a comparison."""
SCHEMA = 1
_END = "</script>"


@dataclass(frozen=True, slots=True)
class Checked:
    """What came out of a page that is no report."""

    of: str
    """What kind of page it is, in words."""
    stated: Mapping[str, int]
    agreed: Mapping[str, int]
    differences: tuple[tuple[str, str, str, str], ...]
    """What, where, as printed, as recomputed."""
    missing: tuple[str, ...]
    """Rows whose numbers are in the data and that the page does not show."""
    not_recomputed: tuple[str, ...]
    """Sentences on what the data do not hold."""

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.missing


def element(ident: str, data: Mapping[str, Json]) -> str:
    """The element that holds the data; the same data give the same bytes."""
    from bench.store.packed import packed

    text = json.dumps({"schema": SCHEMA, **data}, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return f"{_beginning(ident)}{packed(text)}{_END}"


def holds(page: str, ident: str) -> bool:
    """Whether a page has such an element."""
    return _beginning(ident) in page


def data_of(page: str, ident: str) -> Mapping[str, Json]:
    """The data of the element. Raises NoPage."""
    from bench.store.packed import unpacked
    from bench.store.page_data import NoPage
    from bench.store.source import MAX_DEPTH, MAX_DOCUMENT_BYTES, deeper_than, parsed

    _, *found = page.split(_beginning(ident))
    if len(found) != 1 or _END not in found[0]:
        raise NoPage("the data inside the page are cut off, or there twice")
    try:
        data = parsed(unpacked(found[0].partition(_END)[0], MAX_DOCUMENT_BYTES).encode(), finite=True)
    except ValueError as error:
        raise NoPage(f"the data inside the page {error}") from error
    if not isinstance(data, dict) or deeper_than(data, MAX_DEPTH):
        raise NoPage("the data inside the page are no object of this kind")
    if data.get("schema") != SCHEMA:
        raise NoPage(f"data schema {data.get('schema')!r} is not known here ({SCHEMA} is): install another bench")
    return data


def mark(name: str | int) -> str:
    """The attribute of a row that states what the data hold under this name."""
    return f'{ATTRIBUTE}="{name}"'


def stated_rows(page: str) -> dict[str, list[str]]:
    """By the name of each marked row the heading above it and the text of its cells, as a reader sees them.

    Raises NoPage where two have one name.
    """
    reader = _Rows()
    reader.feed(page)
    reader.close()
    if reader.twice:
        from bench.store.page_data import NoPage

        raise NoPage(f"the page states {reader.twice[0][:80]!r} twice")
    return {name: [" ".join(cell.split()) for cell in cells] for name, cells in reader.rows.items()}


def _beginning(ident: str) -> str:
    return f'<script type="application/zlib" id="{ident}">'


class _Rows(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, list[str]] = {}
        self.twice: list[str] = []
        self._cells: list[str] | None = None
        self._heading = ""
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "h2":
            self._heading, self._in_heading, self._cells = "", True, None
        elif tag == "tr":
            name = dict(attrs).get(ATTRIBUTE)
            self._cells = None
            if name is not None:
                self._cells = [self._heading]
                if name in self.rows:
                    self.twice.append(name)
                self.rows[name] = self._cells
        elif self._cells is not None:
            if tag in ("td", "th"):
                self._cells.append("")
            elif len(self._cells) > 1:
                self._cells[-1] += " "

    def handle_endtag(self, tag: str) -> None:
        self._in_heading = self._in_heading and tag != "h2"
        if tag in ("tr", "table"):
            self._cells = None

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self._heading += data
        elif self._cells and len(self._cells) > 1:
            self._cells[-1] += data
