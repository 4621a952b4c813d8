"""Reads the marked statements out of a page as it lies on the disk: which element says what, of which cases.

A page may come from anybody, so this is no browser: it knows the HTML that our templates write, walks it once from beginning to end, and
raises NoPage for anything else.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.report.recompute.stated import ATTRIBUTE, NOTHING, SAID
from bench.store.page_data import NoPage

MAX_DEPTH = 200
MAX_STATEMENTS = 1_000_000
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)((?:\s+[\w:@.-]+(?:=(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?)*)\s*(/?)>")
_MARK = re.compile(rf"\s{ATTRIBUTE}=(?:\"([^\"]*)\"|([^\s\"'=<>`]+))")
_CASES = re.compile(r"\d+(?:\.\d+)*")
_STATEMENT = re.compile(r"([a-zA-Z])(\d+)((?:\.\d+)*)")
_EMPTY = frozenset(("meta", "link", "br", "hr", "img", "input", "col", "base", "wbr"))
_RAW = frozenset(("script", "style", "title", "textarea"))
_BLOCKS = (
    "p",
    "div",
    "ul",
    "ol",
    "dl",
    "table",
    "section",
    "details",
    "figure",
    "pre",
    "h1",
    "h2",
    "h3",
    "h4",
    "header",
    "footer",
    "nav",
)
_CLOSES: dict[str, frozenset[str]] = {
    **{name: frozenset(("p",)) for name in _BLOCKS},
    "li": frozenset(("p", "li")),
    "dt": frozenset(("p", "dt", "dd")),
    "dd": frozenset(("p", "dt", "dd")),
    "td": frozenset(("p", "td", "th")),
    "th": frozenset(("p", "td", "th", "caption")),
    "tr": frozenset(("p", "td", "th", "tr", "caption")),
    "thead": frozenset(("p", "td", "th", "tr", "caption")),
    "tbody": frozenset(("p", "td", "th", "tr", "thead", "tbody", "caption")),
}
"""What a tag ends that HTML lets one leave open."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One element that states a number, a ratio, an interval or a verdict."""

    kind: str
    metric: int
    """The position of the metric, or the number of what else the kind counts."""
    cases: tuple[int, ...]
    """Positions of cases; of a trial's median that of the trial. Nothing where a body says that it states no number, and in words."""
    text: str
    """As a reader sees it, spaces joined."""
    is_evidence: bool = False
    """Whether it stands in what opens below a row."""


@dataclass(frozen=True, slots=True)
class Loose:
    """Text that stands between the statements, outside of drawings and of what opens below a row."""

    text: str


@dataclass(slots=True)
class _Open:
    """An element that has not ended."""

    tag: str
    mark: str
    hears: list[str] | None = None
    heads: list[str] = field(default_factory=list)
    """Of a table, the marks of its heads, by column."""
    column: int = -1
    """Of a line the cell that is open, of a body the line."""


def statements(page: str) -> Iterator[Statement]:
    """All of them, in the order in which they end. Raises NoPage."""
    return (piece for piece in pieces(page) if isinstance(piece, Statement))


def pieces(page: str) -> Iterator[Statement | Loose]:
    """All statements, in the order in which they end, and what stands between them. Raises NoPage."""
    walk = _Walk()
    at, count = 0, 0
    while (start := page.find("<", at)) >= 0:
        if start > at:
            walk.hear(page[at:start])
        if page.startswith("<!", start):
            end = page.find("-->" if page.startswith("<!--", start) else ">", start)
            at = _end(end, start) + (3 if page.startswith("<!--", start) else 1)
            continue
        found = _TAG.match(page, start)
        if found is None:
            raise NoPage(f"character {start} begins what no page of bench holds: {page[start : start + 30]!r}")
        at = found.end()
        closing, tag, attributes, alone = found[1], found[2].lower(), found[3], found[4]
        if tag == "wbr":
            continue  # a word may go on in another line there, and is one word all the same
        yield from walk.loosened()
        walk.hear(" ")  # elements are set apart, as blocks are
        if closing:
            ended = walk.ends(tag)
        else:
            ended = walk.begins(tag, attributes)
            if tag in _RAW:
                at = _end(page.find(f"</{tag}", at), start)
            elif alone or tag in _EMPTY:
                ended += walk.ends(tag)
        count += len(ended)
        if count > MAX_STATEMENTS:
            raise NoPage(f"the page states more than {MAX_STATEMENTS} numbers")
        yield from ended


def _end(found: int, start: int) -> int:
    if found < 0:
        raise NoPage(f"what begins at character {start} has no end: the page is cut off")
    return found


class _Walk:
    """Where the reading is: the open elements, the outermost first."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._hearing: list[list[str]] = []
        self._loose: list[str] = []

    def hear(self, text: str) -> None:
        for heard in self._hearing:
            heard.append(text)
        if not self._hearing:
            self._loose.append(text)

    def loosened(self) -> list[Loose]:
        """What was heard outside of statements since the last tag."""
        text = " ".join(html.unescape("".join(self._loose)).split())
        self._loose.clear()
        return [Loose(text)] if text and not self._in_evidence() and all(element.tag != "svg" for element in self._open) else []

    def _in_evidence(self) -> bool:
        """Whether the reading is in the second line of a body that is marked."""
        return any(element.tag == "tbody" and element.mark and element.column > 0 for element in self._open)

    def begins(self, tag: str, attributes: str) -> list[Statement]:
        ended: list[Statement] = []
        closes = _CLOSES.get(tag, frozenset())
        while self._open and self._open[-1].tag in closes:
            ended += self._end_last()
        found = _MARK.search(attributes) if ATTRIBUTE in attributes else None
        mark = html.unescape(found[1] or found[2] or "") if found else ""
        element = _Open(tag, self._cell(mark) if tag in ("td", "th") else mark)
        if _STATEMENT.fullmatch(element.mark):
            element.hears = []
            self._hearing.append(element.hears)
        self._open.append(element)
        if len(self._open) > MAX_DEPTH:
            raise NoPage(f"the page is nested deeper than {MAX_DEPTH}")
        return ended

    def ends(self, tag: str) -> list[Statement]:
        if not any(element.tag == tag for element in self._open):
            return []
        ended: list[Statement] = []
        while True:
            last = self._open[-1].tag
            ended += self._end_last()
            if last == tag:
                return ended

    def _cell(self, mark: str) -> str:
        """The mark of a cell: its own, else that of its column's head where its line or body is marked; a head states nothing itself."""
        around: dict[str, _Open] = {}
        for element in reversed(self._open):
            around.setdefault(element.tag, element)
            if element.tag == "table":
                break
        if not around.keys() >= {"tr", "table"}:
            return mark
        table, line, body = around["table"], around["tr"], around.get("tbody")
        line.column += 1
        if "thead" in around:
            table.heads.append(mark)
            return ""
        if line.column == 0 and body is not None:
            body.column += 1
        # The second line of a body that is marked holds the evidence.
        is_stated = bool(line.mark) or (body is not None and bool(body.mark) and body.column == 0)
        head = table.heads[line.column] if line.column < len(table.heads) else ""
        return mark or (head if is_stated else "")

    def _end_last(self) -> list[Statement]:
        element = self._open.pop()
        if element.hears is None:
            return []
        self._hearing.pop()
        found = _STATEMENT.fullmatch(element.mark)
        if found is None:
            return []
        own = found[3][1:]
        if found[1] == SAID:
            text = " ".join(html.unescape("".join(element.hears)).split())
            return [Statement(found[1], _place(found[2]), (), text, self._in_evidence())]
        around = next((other.mark for other in reversed(self._open) if _is_place(other.mark)), "")
        cases = own or around
        if not cases:
            raise NoPage(f"the statement {element.mark!r} is of no case")
        text = " ".join(html.unescape("".join(element.hears)).split())
        numbers = () if cases == NOTHING else tuple(map(_place, cases.split(".")))
        return [Statement(found[1], _place(found[2]), numbers, text, self._in_evidence())]


def _is_place(mark: str) -> bool:
    return mark == NOTHING or _CASES.fullmatch(mark) is not None


def _place(text: str) -> int:
    if len(text) > 9:
        raise NoPage(f"{text[:20]} is no position")
    return int(text)
