"""On a phone: the answer stands on the first screen however many runs there are, and nothing has to be pushed sideways to be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.report import render_page
from bench.report.outputs.claims import claims_page
from tests.report.chromium import NOW, opened, sample
from tests.report.outputs.test_claims import FINDINGS
from tests.report.outputs.test_judged import page as judged

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
WIDER = "[...document.querySelectorAll('*')].filter(one => one.scrollWidth > innerWidth && !one.closest('thead')).length"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of twelve runs."""
    (run,), rows = sample("few")
    runs = [replace(run, id=f"{number:02}{run.id[2:]}") for number in range(12)]
    results = [replace(row, id=f"{one.id}-{place}", run_id=one.id) for one in runs for place, row in enumerate(rows)]
    path = tmp_path_factory.mktemp("phone") / "many.html"
    path.write_text(render_page(runs, results, now=NOW, light=True), encoding="utf-8")
    return path


def test_of_many_runs_a_phone_shows_the_answer_first_and_a_desk_the_list_as_well(browser: Any, many: Path) -> None:
    with opened(browser, many, viewport=PHONE) as found:
        answer = found.page.locator(".first h3, .first h2").first
        box = answer.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < PHONE["height"]
        links = found.page.locator(".runs a")
        assert (links.count(), links.first.is_visible()) == (12, False)
        found.page.locator(".runs summary").click()
        assert links.last.is_visible()
    with opened(browser, many, viewport=DESK) as found:
        assert found.page.locator(".runs a").last.is_visible()


def test_without_scripts_the_list_can_be_opened_and_a_short_one_is_open(browser: Any, many: Path, pages: Any) -> None:
    with opened(browser, many, viewport=DESK, java_script_enabled=False) as found:
        found.page.locator(".runs summary").click()
        assert found.page.locator(".runs a").last.is_visible()
    with opened(browser, pages["two"], viewport=PHONE) as found:
        assert found.page.locator(".runs a").last.is_visible()


def test_a_page_of_a_night_is_read_on_a_phone_without_pushing_it_sideways(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "night.html"
    path.write_text(judged(tmp_path), encoding="utf-8")
    with opened(browser, path, viewport=PHONE) as found:
        assert found.page.evaluate(WIDER) == 0
        numbers = found.page.locator("table.moved tbody tr").first.locator("td.n")
        heads = [one.evaluate("cell => getComputedStyle(cell, '::before').content") for one in numbers.all()]
        assert heads == ['"first"', '"second"', '"ratio"', '"n"']
        found.page.set_viewport_size(DESK)
        assert found.page.locator("table.moved thead th").first.is_visible()


def test_a_page_of_claims_is_read_on_a_phone_without_pushing_it_sideways(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "claims.html"
    path.write_text(claims_page(FINDINGS), encoding="utf-8")
    with opened(browser, path, viewport=PHONE) as found:
        assert found.page.evaluate(WIDER) == 0
        cells = found.page.locator("tbody tr").first.locator("td, th")
        assert all(cell.is_visible() for cell in cells.all() if cell.inner_text())
        theirs, ours = (found.page.locator("tbody tr").first.locator("td.n").nth(place) for place in (0, 1))
        heads = [one.evaluate("cell => getComputedStyle(cell, '::before').content") for one in (theirs, ours)]
        assert heads == ['"theirs"', '"ours"']
        found.page.set_viewport_size(DESK)
        assert found.page.locator("thead th").first.is_visible()
        assert theirs.evaluate("cell => getComputedStyle(cell, '::before').content") == "none"


def test_rows_stand_below_one_another_each_number_below_the_head_of_its_column(browser: Any, pages: Any) -> None:
    label = "cell => getComputedStyle(cell, '::before').content"
    with opened(browser, pages["gpu"], viewport=PHONE) as found:
        table = found.page.locator("table.all").first
        assert table.evaluate("table => table.parentElement.scrollWidth <= table.parentElement.clientWidth")
        heads = table.locator(":scope > thead th").all_inner_texts()
        first = table.locator(":scope > tbody > tr:first-child").first
        assert [one.evaluate(label) for one in first.locator(":scope > td").all()] == [
            f'"{head}"' for head in heads if head != "subject"
        ]
        assert first.locator(":scope > th").evaluate(label) == "none"
        assert all(cell.is_visible() for cell in first.locator(":scope > td, :scope > th").all())
        table.locator("thead button", has_text="peak").click()
        assert table.locator(":scope > tbody > tr:first-child > th").all_inner_texts()[-1] == "eager", "the largest peak comes last"
        table.locator("summary").first.click()
        assert table.locator(".evidence").first.is_visible()
        assert table.evaluate("table => table.parentElement.scrollWidth <= table.parentElement.clientWidth")
        found.page.locator("input[type=search]").first.fill("flex")
        assert {text.strip() for text in table.locator(":scope > tbody:visible > tr:first-child > th").all_inner_texts()} == {
            "flex"
        }
        found.page.set_viewport_size(DESK)
        assert first.locator(":scope > td").first.evaluate(label) == "none"


SIDEWAYS = """[...document.querySelectorAll("div.scroll")].filter(one => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
    .map(one => one.ariaLabel)"""
HEADS = """table => [...table.tBodies[0].rows].map(row => [...row.cells].filter(cell => cell.colSpan === 1 && cell.tagName === "TD")
    .map(cell => getComputedStyle(cell, "::before").content.slice(1, -1)))"""


def test_lines_of_all_other_wide_tables_stand_below_one_another_too(browser: Any, pages: Any) -> None:
    with opened(browser, pages["crossing"], viewport=PHONE) as found:
        found.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert found.page.evaluate(SIDEWAYS) == []
        scores = found.page.locator("table.scores")
        lines = scores.evaluate(HEADS)
        assert ["without a number"] in lines, "the baseline's line has one cell for all its numbers"
        every = ["time", "memory", "points", "best time", "worst time", "by time", "without a number"]
        assert [line for line in lines if line not in (every, every[-1:])] == []
        matrix = found.page.locator("table.matrix").first
        assert matrix.evaluate(HEADS)[0][:2] == ["seq len 512", "seq len 1024"]
        found.page.set_viewport_size(DESK)
        assert scores.locator("thead th").first.is_visible()
        first = scores.locator("tbody td").first
        assert first.evaluate("cell => getComputedStyle(cell, '::before').content") == "none"
