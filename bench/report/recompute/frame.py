"""Holds what stands between the statements of a page, and its charts, against the page that is written anew of its data.

A heading, the head of a column or a caption says what the numbers below it are, so each has to stand where it stands in that page, in the
same words; so have the words in a chart. How lines are drawn, the style sheet and the script may be another version's without saying
anything false: these are told apart. What opens below a row is left out, since the data do not repeat it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from bench.lang.messages import Language
from bench.lang.pages import page_in, page_in_todays_words
from bench.report.outputs.page import page_again
from bench.report.recompute.aligned import FOREIGN
from bench.report.recompute.aligned import differences as differences_of
from bench.report.recompute.former import today
from bench.report.recompute.rows import rows_of
from bench.report.recompute.statements import Loose, pieces
from bench.store.page_data import BEGINNING, END, PACKED_BEGINNING, NoPage, read_page_data

FIXED, CHARTS = "fixed words, and where each number stands", "words of charts"
HIDDEN, BELOW = "bars, and what is hidden", "commands and reasons below rows"
NO_COMMAND, NOTHING_BELOW = "no command", ("", "", "")
_EVIDENCE = re.compile(r"<div class=\"?evidence\b.*?(?=<tbody id=|</table>\s*</div>\s*</section>)", re.S)
_DRAWING = re.compile(r"<svg\b[^<>]*\brole=\"?img\b.*?</svg>", re.S)
_BELOW = re.compile(r"<tbody id=\"?([\w-]+)(?:(?!<tbody id=).)*?<details><summary>(.*?)<code[^<>]*>(.*?)</code></summary>", re.S)
_TITLE = re.compile(r"<title>(.*?)</title>", re.S)
_STYLE = re.compile(r"<style>(.*?)</style>", re.S)
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.S)
_RULE = re.compile(r"\.(z[0-9a-z]+)\{([^{}]*)\}")
_MARK = re.compile(r'<path id="(k[0-9a-z]+)" (d="[^"]*"[^<>]*)/>')
_CLASS = re.compile(r" class=\"?(z[0-9a-z]+)\"?")
_USE = re.compile(r"<use href=\"?#(k[0-9a-z]+)\"?")
_CHART_WORDS = re.compile(r"<text\b[^<>]*>([^<]*)<|\baria-label=\"([^\"]*)\"")
_TAG = re.compile(r"<([a-z][a-z0-9]*)((?:[^<>\"]|\"[^\"]*\")*)>", re.I)
_DRESS = re.compile(r"\s(hidden\b|style=(?:\"[^\"]*\"|[^\s\"<>]+))", re.I)


@dataclass(frozen=True, slots=True)
class Framed:
    """What came out."""

    stated: dict[str, int]
    differences: tuple[tuple[str, str, str, str], ...]
    """What, where, as printed, as written anew."""
    unlike: tuple[str, ...]
    """Sentences on what looks otherwise than this version writes it."""


def frame(text: str, own: Language | None) -> Framed:
    """Holds a page in its own language, whose statements all agree, against the one that its data make. Raises NoPage."""
    text = text.replace("\r\n", "\n")  # as a mail may have made it
    text = text if own is None else page_in_todays_words(text, own)
    again = _again(_data(text))
    again = again if own is None else page_in(again, own)
    words, right = list(_words(text)), list(_words(again))
    if own is not None:
        said = set(right)
        words = [piece if piece in said else _renewed(piece, own) for piece in words]
    drawn, redrawn = _drawings(text), _drawings(again)
    dress, dressed = list(_dress(text)), list(_dress(again))
    between = list(differences_of(words, right))
    # What a later version says beside it all an older page does not lack: what has to be said at all is a statement, and missed as one.
    added = [(where, there) for where, here, there in between if not here]
    differences: list[tuple[str, str, str, str]] = [(FIXED, *one) for one in between if one[1]]
    for place, (here, there) in enumerate(zip_longest(drawn, redrawn, fillvalue=""), 1):
        found = differences_of(_inside(here), _inside(there))
        differences += [(CHARTS, f"chart {place}, {where}", printed, computed) for where, printed, computed in found]
    # Words that an older page lacks have bars that it lacks as well.
    differences += [(HIDDEN, *one) for one in differences_of(dress, dressed) if one[1] or not added]
    rows = list(zip_longest(_below(text), _below(again), fillvalue=NOTHING_BELOW))
    # Pages of older versions that travel light do not tell commands in their data, and none tells those of rows that were set aside.
    held = [(here, there) for here, there in rows if there[-1] not in ("", NO_COMMAND)]
    differences += [
        (BELOW, f"row {here[0]}", printed, computed)
        for here, there in held
        for printed, computed in zip(here, there, strict=True)
        if printed != computed
    ]
    stated = {
        FIXED: len(right) - len(added),
        CHARTS: sum(len(_inside(one)) for one in redrawn),
        HIDDEN: len(dressed),
        BELOW: len(held),
    }
    unlike = [*_lacking(added), *_unlike(text, again, drawn, redrawn)]
    return Framed(stated, tuple(differences), tuple(unlike))


def _renewed(piece: str, own: Language) -> str:
    """A piece in the page's language that says what a former version said, as this one says it."""
    english = own.english(piece)
    now = today(english)
    return piece if now == english else own.said(now)


def _lacking(added: Sequence[tuple[str, str]]) -> Iterator[str]:
    if added:
        where, words = added[0]
        more = f", and {len(added) - 1} more" if len(added) > 1 else ""
        yield f"words that this version writes are not there: {where} {words!r}{more}"


def _data(page: str) -> str:
    """The element with the data, of which it is known that there is one."""
    start = next(page.index(beginning) for beginning in (BEGINNING, PACKED_BEGINNING) if beginning in page)
    return page[start : page.index(END, start) + len(END)]


@lru_cache(maxsize=2)
def _again(data: str) -> str:
    """Who holds several copies of one page writes it anew but once."""
    page = read_page_data(data)
    try:
        return page_again(page, rows_of(page))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise NoPage(f"no page can be made of the data inside it ({' '.join(str(error).split())[:200]})") from error


def _words(page: str) -> Iterator[str]:
    """What a reader sees, piece by piece: statements and what stands between them, each without spaces at its ends."""
    yield from (f"title: {' '.join(html.unescape(title).split())}" for title in _TITLE.findall(page))
    for piece in pieces(page):
        if isinstance(piece, Loose) or not piece.is_evidence:
            yield today(piece.text)


def _below(page: str) -> list[tuple[str, str, str]]:
    """Of each row its id, why it has no number, and the command that measures it again."""
    return [(ident, _text(why), _text(command)) for ident, why, command in _BELOW.findall(page)]


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^<>]*>", " ", markup)).split())


def _drawings(page: str) -> list[str]:
    """The charts outside of the rows, with the looks and marks that they share written out again."""
    rules = dict(_RULE.findall("".join(_STYLE.findall(page))))
    marks = dict(_MARK.findall(page))
    found = _DRAWING.findall(_EVIDENCE.sub("", page))
    found = [_CLASS.sub(lambda one: f' style="{rules.get(one[1], one[1])}"', drawing) for drawing in found]
    return [_USE.sub(lambda one: f"<use {marks.get(one[1], one[1])}", drawing) for drawing in found]


def _inside(drawing: str) -> list[str]:
    return [html.unescape(text or label) for text, label in _CHART_WORDS.findall(drawing)]


def _dress(page: str) -> Iterator[str]:
    """What is hidden, how long bars are, and which elements no page of ours has."""
    for tag, attributes in _TAG.findall(_DRAWING.sub("", _EVIDENCE.sub("", page))):
        if tag.lower() in FOREIGN:
            yield f"<{tag.lower()}>"
        yield from (f"<{tag.lower()} {found}>".replace('"', "") for found in _DRESS.findall(attributes))


def _unlike(page: str, again: str, drawn: Sequence[str], redrawn: Sequence[str]) -> Iterator[str]:
    moved = sum(_inside(here) == _inside(there) and here != there for here, there in zip(drawn, redrawn, strict=False))
    if moved:
        yield f"the lines of {moved} of {len(drawn)} charts are not those that this version draws of these data"
    if _sheet(page) != _sheet(again):
        yield "the style sheet is not this version's, and may hide or add words"
    if _SCRIPT.findall(page) != _SCRIPT.findall(again):
        yield "the script is not this version's, and may change words once the page is opened"


def _sheet(page: str) -> list[str]:
    return [_RULE.sub("", sheet) for sheet in _STYLE.findall(page)]
