"""Packs what a page shows only once its script runs: rows, what is closed, panels and runs but the first; and puts it back.

For pages that are to travel light. It is the last step over finished text, in whatever language: each part leaves an ellipsis in its place,
and all of them lie as one deflated list right before the script, which puts them back when the page is opened. What a page says is always
said of the text that `unfolded` gives, since how well the parts are deflated is the library's affair and no fact of the page.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

from bench.lang.pages import language_of
from bench.store.packed import packed, unpacked
from bench.store.page_data import END, NoPage
from bench.store.source import MAX_DOCUMENT_BYTES, parsed

BEGINNING = '<script type="application/zlib" id="parts">'
PLACE = "<i class=packed>…</i>"
NOTICE = (
    "Rows, what is closed, panels but the first, and runs but the first below their answers are packed in this file; “…” stands where each "
    "belongs. A browser of 2023 or later puts them back by JavaScript, and `bench report --from-file FILE` writes them openly: FILE is "
    "this page, or the results that it was made of."
)
FORMER_NOTICE = (
    "Rows, what is closed, and panels but the first are packed in this file; “…” stands where each belongs. A browser of 2023 or later "
    "puts them back by JavaScript, and `bench report --from-file FILE` writes them openly: FILE is this page, or the results that it was "
    "made of."
)
"""Of pages of older versions, which pack less."""
CLAIMS_NOTICE = (
    "What is closed, and the claims of each verdict but the first, are packed in this file; “…” stands where each belongs. A browser of "
    "2023 or later puts them back by JavaScript, and `bench claims --format markdown` tells them openly."
)
"""Of a page of claims."""
LEAST_CHARS = 200
"""A part that is shorter stays where it is."""
_SCRIPT = "<script>"
_MAIN = re.compile(r"<main\b[^<>]*>")
_MAIN_END = "</main>"
_TAG = re.compile(r"<(/?)(article|details|div|section)\b([^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*)>")
_HEAD = re.compile(r"\s*<(summary|h2|h3)\b.*?</\1>", re.S)
"""What is seen of a part that is packed."""
_ROWS = re.compile(r"\sclass=\"?rows\b")
_PANEL = re.compile(r"\sclass=\"?facet\b")
_OPEN = re.compile(r"\sopen\b")
_BELOW = re.compile(r"\sclass=\"?(?:second|workload|environment)\b")
"""What comes below the answers of a run."""
_GROUP = re.compile(r"\sclass=\"?group\b")
_CODE = re.compile(r"`([^`]*)`")


def folded(page: str, notice: str = NOTICE) -> str:
    """The page with its parts packed; one that has no such part as it is. `unfolded` gives back what came, as UTF-8 can hold it."""
    page = page.encode("utf-8", "backslashreplace").decode("utf-8")
    main, end = _MAIN.search(page), page.find(_MAIN_END)
    head, script_tag, script = page.rpartition(_SCRIPT)
    if BEGINNING in page or PLACE in page or main is None or not main.end() <= end < len(head):
        return page
    kept, parts, at = [page[: main.end()], _notice(page, notice)], [], main.end()
    for start, stop in _places(page, main.end(), end):
        kept += [page[at:start], PLACE]
        parts.append(page[start:stop])
        at = stop
    if not parts:
        return page
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return f"{''.join(kept)}{page[at : len(head)]}{BEGINNING}{packed(text)}{END}{script_tag}{script}"


def unfolded(page: str) -> str:
    """The page with its parts where they belong, and without the notice. Raises NoPage for parts that cannot be put back."""
    head, script_tag, script = page.rpartition(_SCRIPT)
    rest, beginning, text = head.rpartition(BEGINNING)
    if not beginning:
        if BEGINNING in page:
            raise NoPage("the page is cut off in or behind its packed parts: take it anew from where it came")
        return page
    if not text.endswith(END):
        raise NoPage("the packed parts of the page are cut off, or not where its script looks for them")
    try:
        parts = parsed(unpacked(text.removesuffix(END), MAX_DOCUMENT_BYTES).encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise NoPage(f"the packed parts of the page {error}: it was changed on its way, take it anew from where it came") from error
    if not isinstance(parts, list) or not all(isinstance(part, str) and PLACE not in part for part in parts):
        raise NoPage("the packed parts of the page are no list of texts")
    first, *others = f"{rest}{script_tag}{script}".split(PLACE)
    if len(others) != len(parts):
        raise NoPage(f"the page has {len(others)} places for packed parts, and {len(parts)} parts")
    whole = first + "".join(part + after for part, after in zip(parts, others, strict=True))
    main = _MAIN.search(whole)
    for notice in (_notice(page, words) for words in (NOTICE, FORMER_NOTICE, CLAIMS_NOTICE)):
        if main is not None and whole.startswith(notice, main.end()):
            return whole[: main.end()] + whole[main.end() + len(notice) :]
    return whole


def _notice(page: str, words: str) -> str:
    """What is read where no script runs, in the language of the page."""
    own = language_of(page)
    text = _CODE.sub(r"<code>\1</code>", html.escape(words if own is None else own.said(words), quote=False))
    return f'<noscript id="packed"><p class="warn">{text}</p></noscript>'


def _places(page: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each part begins and stops, outermost parts alone."""
    around: list[int | None] = []
    panels = runs = groups = 0
    for tag in _TAG.finditer(page, begin, end):
        closing, name, attributes = tag.groups()
        if closing:
            start = around.pop() if around else None
            if start is not None and tag.start() - start >= LEAST_CHARS:
                yield start, tag.start()
            continue
        is_panel = name == "details" and _PANEL.search(attributes) is not None
        is_group = name == "section" and _GROUP.search(attributes) is not None
        panels += is_panel
        groups += is_group
        runs += name == "article"
        start = None
        if all(begun is None for begun in around):
            is_later = (is_panel and panels > 1) or (is_group and groups > 1)
            is_shut = name == "details" and not _OPEN.search(attributes)
            if runs > 1 and name in ("div", "section") and _BELOW.search(attributes):
                start = tag.end()
            elif is_later or is_shut or (name == "section" and _ROWS.search(attributes)):
                head = _HEAD.match(page, tag.end(), end)
                start = None if head is None else head.end()
        around.append(start)
