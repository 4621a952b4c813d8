"""A page in Traditional Chinese: its words, what stays English in it, and that it can be verified like any other."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.lang import Language, language
from bench.lang.pages import language_of, page_in, page_in_english
from bench.records import Json
from bench.report import render_page
from bench.report.recompute.former import today
from bench.report.recompute.verify import verify_page
from tests.report.chromium import NOW, Pages, opened, sample

NAMES = ("crossing", "gpu", "formats", "ladder", "compat", "search", "hostile", "two")
HAN = re.compile("[\u4e00-\u9fff]")
_HEADING = re.compile(
    r"<(li|h[1-4]|summary|caption|figcaption|th scope=\"?col\"?|p class=\"?head\"?|dt)(?= |>)[^>]*>(.*?)"
    r"(?=</?(?:li|ul|ol|h[1-4]|summary|caption|figcaption|th|p|dt|dd|tr|thead)\b)",
    re.S,
)
_ROWS = re.compile(r"<tbody id=.*?</table>(?=</div>\s*</section>)", re.S)


@pytest.fixture(scope="module")
def chinese() -> Language:
    return language("zh-TW")


def texts(page: str) -> list[str]:
    """What stands between tags, in order."""
    page = re.sub(r"<(script|style|title)\b.*?</\1>|<!-- -->", "", page, flags=re.S)
    return [html.unescape(text) for text in re.split(r"<[^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>", page) if text.strip()]


def headings(page: str) -> Iterator[str]:
    """Headings of sections, folds, tables and figures, lines of lists and the names in them, less rows and lists of facts."""
    page = _ROWS.sub("", page)
    page = re.sub(
        r"<dl class=\"?long.*?</dl>|<p class=\"?head\"?>[^<]*</p><dl.*?</dl>|<section class=\"?reaches.*?</section>",
        "",
        page,
        flags=re.S,
    )
    for found in _HEADING.finditer(page):
        text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[2])).split())
        if text:
            yield text


@pytest.mark.parametrize("name", NAMES)
def test_no_heading_stays_english_but_names_of_others(pages: Pages, chinese: Language, name: str) -> None:
    runs, rows = sample(name)
    others = {" ".join(text.split()) for run in runs for text in (run.question, *_strings(run.suite_data))}
    others |= {" ".join(name.split()).replace("_", " ") for row in rows for name in (*row.case.subject.values(), *row.case.params)}
    left = [text for text in headings(page_in(pages[name].read_text(), chinese)) if not HAN.search(text)]
    assert [text for text in left if text not in others | {"n", "rank"}] == []


def _strings(data: Json) -> Iterator[str]:
    """All that a suite says."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, list | dict):
        for part in data if isinstance(data, list) else (*data, *data.values()):
            yield from _strings(part)


def test_a_page_that_says_here_what_a_former_version_said_is_verified(pages: Pages, chinese: Language) -> None:
    turned = page_in(pages["gpu"].read_text(), chinese)
    english = next(message for message in chinese.messages if message.startswith("A rate divides") and today(message) != message)
    now = chinese.said(today(english))
    assert now in turned
    assert verify_page(turned.replace(now, chinese.messages[english])).agrees


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_read_back_to_the_last_character(pages: Pages, chinese: Language, name: str) -> None:
    page = pages[name].read_text()
    turned = page_in(page, chinese)
    assert HAN.search(turned)
    assert texts(page_in_english(turned, chinese)) == texts(page)


def test_scripts_commands_data_and_rows_stay_as_they_are(pages: Pages, chinese: Language) -> None:
    page = pages["gpu"].read_text()
    turned = re.sub(r'<script type="application/json" id="words">.*?</script>\n', "", page_in(page, chinese))
    for kept in (r"<script.*?</script>", r"<pre.*?</pre>", r"<code.*?</code>", r"<tbody id=[^>]*"):
        before = re.findall(kept, page, re.S)
        assert re.findall(kept, turned, re.S) == [part + (' lang="en"' if part.startswith("<tbody") else "") for part in before]
    assert not HAN.search("".join(_ROWS.findall(turned)))
    assert '<html lang="zh-Hant-TW">' in turned
    assert language_of(turned) is chinese
    assert language_of(page) is None


def test_a_page_is_verified_in_chinese_and_a_word_that_was_changed_is_found(pages: Pages, chinese: Language) -> None:
    turned = page_in(pages["crossing"].read_text(), chinese)
    assert verify_page(turned).agrees
    fast = re.search(r"速度為( \S+ 的|其) ?1\.43×", turned)
    assert fast is not None
    found = verify_page(turned.replace(fast[0], fast[0].replace("速度", "耗時"))).differences
    assert [("slower" in one.printed, "faster" in one.computed) for one in found] == [(True, True)]


def test_a_page_in_words_of_former_versions_is_verified_as_well(pages: Pages, chinese: Language) -> None:
    turned = page_in(pages["crossing"].read_text(), chinese)
    former = re.sub(r"速度為其 ?(?=\d)", "快 ", re.sub(r"速度為 (\S+) 的 (?=\d)", r"比 \1 快 ", turned))
    assert former != turned
    assert verify_page(former).agrees


def test_a_question_that_is_a_message_itself_is_not_read_back_as_one(chinese: Language) -> None:
    runs, rows = sample("crossing")
    page = render_page([replace(runs[0], question="該用什麼")], rows, now=NOW)
    turned = page_in(page, chinese)
    assert "該用什麼" in "".join(texts(page_in_english(turned, chinese)))
    assert verify_page(turned).agrees


def test_chromium_shows_the_page_as_chinese_and_its_rows_as_english(
    browser: Any, pages: Pages, chinese: Language, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_in(pages["crossing"].read_text(), chinese), encoding="utf-8")
    with opened(browser, path, viewport={"width": 390, "height": 900}) as found:
        page = found.page
        assert page.evaluate("document.documentElement.lang") == "zh-Hant-TW"
        assert page.title() == page.locator("h1").inner_text()
        assert page.locator(".answers h3").first.inner_text() == "該用什麼"
        assert page.locator("h2", has_text="如何閱讀本報告").is_visible()
        assert page.locator("table.all > tbody").first.get_attribute("lang") == "en"
        for width in (390, 800, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".tools input").first.get_attribute("placeholder") == "搜尋各列"
        assert page.locator(".environment button.copy").first.inner_text() == "複製"
        page.locator("table.all thead button").first.click()  # rows still sort by script
        assert page.locator("table.all thead [aria-sort]").count() == 1


def test_a_picture_of_the_page_shows_characters_where_a_font_has_them(
    browser: Any, pages: Pages, chinese: Language, tmp_path: Path
) -> None:
    fonts = pytest.importorskip("matplotlib.font_manager")
    from bench.lang.fonts import family

    if family("zh-TW") is None:
        pytest.skip(f"no font for Chinese among {len(fonts.fontManager.ttflist)} (apt-get install fonts-noto-cjk)")
    path = tmp_path / "page.html"
    path.write_text(page_in(pages["crossing"].read_text(), chinese), encoding="utf-8")
    with opened(browser, path, viewport={"width": 800, "height": 900}) as found:
        heading = found.page.locator(".answers h3").first
        shown = heading.screenshot()
        heading.evaluate("element => { element.textContent = '\\uE000\\uE001\\uE002\\uE003' }")  # characters that no font has
        assert heading.screenshot() != shown
