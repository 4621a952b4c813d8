"""A page in another language, and read back: its text and labels are turned, its rows, code, scripts and data are not."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator

from bench.lang.messages import LANGUAGES, Language, language

_PART = re.compile(r"<[^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>|[^<]+")
_LABEL = re.compile(r'(\s(?:aria-label|title|placeholder)=")([^"]*)(")')
_NAME = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
_RAW = frozenset(("script", "style", "title"))
"""Elements in which a `<` begins no tag."""
_KEPT = frozenset(("pre", "code"))
"""Elements whose text is no sentence of ours."""
_LANGUAGE = re.compile(r'(<html lang=)"?([\w-]+)"?(>)')
_BEGINNING_CHARS = 200
"""Within so many characters a page says its language."""
_ROW = re.compile(r"<tbody id=[^>]*>")
"""The two lines of a row and all its evidence: they stay English, and say so."""
_TITLE = re.compile(r"(<title>)([^<]*)(</title>)")
_STYLE_END = "</style>"
_STYLE = (
    ":lang({tag}) thead th{{word-break:keep-all;overflow-wrap:normal}}"
    ":lang({tag}) .statuses>div{{grid-template-columns:13rem minmax(0,1fr)}}"
)
"""Where words have no spaces between, a narrow column would hold one character a line; statuses have a gloss beside."""


def page_in(text: str, to: Language) -> str:
    """A page of ours in the language `to`, with its tag; equal pages give equal pages."""
    made = []
    for part, kind in _parts(text):
        if kind == "text":
            plain = html.unescape(part)
            made.append(_turned(part, to.said) if to.english(plain) == plain else _guarded(plain))
        elif kind == "row":
            made.append(part[:-1] + ' lang="en">')
        elif kind == "tag":
            made.append(_LABEL.sub(lambda found: f"{found[1]}{_turned(found[2], to.said)}{found[3]}", part))
        else:
            made.append(part)
    titled = _TITLE.sub(lambda found: f"{found[1]}{_turned(found[2], to.said)}{found[3]}", "".join(made), count=1)
    head, tag, script = titled.rpartition("<script>")
    page = f"{head}{_words(to) if tag else ''}{tag}{script}"
    page = page.replace(_STYLE_END, f"{_STYLE.format(tag=to.tag)}{_STYLE_END}", 1)
    return _LANGUAGE.sub(rf'\g<1>"{to.tag}"\g<3>', page, count=1)


def _words(own: Language) -> str:
    """What the page's script says, for it to look up."""
    text = json.dumps(own.controls, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="words">{text}</script>\n'


def language_of(text: str) -> Language | None:
    """The language of a page, where it is another one than English."""
    found = _LANGUAGE.search(text[:_BEGINNING_CHARS])
    name = next((name for name, tag in LANGUAGES.items() if found is not None and tag == found[2]), None)
    return None if name is None else language(name)


def page_in_english(text: str, own: Language) -> str:
    """The page with its text as it was before `page_in`; its labels for those who cannot see it stay as they are."""
    return "".join(_turned(part, own.english) if kind == "text" else part for part, kind in _parts(text))


def page_in_todays_words(text: str, own: Language) -> str:
    """The page, in its language, as this version words it; its labels for those who cannot see it stay as they are."""
    return "".join(_turned(part, own.renewed) if kind == "text" else part for part, kind in _parts(text))


def _guarded(plain: str) -> str:
    """Somebody's own words that happen to be a message of the language: cut in two, so that they are not read back as one."""
    middle = len(plain) // 2
    return f"{html.escape(plain[:middle])}<!-- -->{html.escape(plain[middle:])}"


def _turned(text: str, turn: Callable[[str], str]) -> str:
    plain = html.unescape(text)
    made = turn(plain)
    return text if made == plain else html.escape(made, quote=True)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Tags and texts in order, each with what it is: `text` and `tag` can be turned, `row` begins what stays, `kept` stays."""
    at, kept, depth = 0, "", 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:  # what is cut off inside a tag
            yield text[at:], "kept"
            return
        part, at = found[0], found.end()
        if not part.startswith("<"):
            yield part, "kept" if kept else "text"
            continue
        name = _NAME.match(part)
        tag, closes = (name[2].lower(), bool(name[1])) if name is not None else ("", False)
        is_row = _ROW.fullmatch(part) is not None
        if kept:
            yield part, "row" if is_row else "kept"
            depth += (-1 if closes else 1) if tag == kept else 0
            kept = kept if depth else ""
        elif tag in _RAW and not closes:
            yield part, "kept"
            end = text.find(f"</{tag}", at)
            end = len(text) if end < 0 else end
            yield text[at:end], "kept"
            at = end
        else:
            # A row's end tag may be left out, its table's may not.
            kept = "" if closes else "table" if is_row else tag if tag in _KEPT else ""
            depth = 1
            yield part, "row" if is_row else "kept" if closes else "tag"
