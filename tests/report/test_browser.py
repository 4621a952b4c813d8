"""The page in a real Chromium: quiet, offline, narrow enough, and usable with a keyboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.store.page_data import data_text
from tests.report.chromium import SAMPLES, Pages, opened

WIDTHS = (390, 800, 1440)
PUBLISHED = sorted((Path(__file__).parents[2] / "reports" / "published").glob("*.html"))
OPEN_ALL = """() => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  for (const rows of document.querySelectorAll('.rows')) rows.style.contentVisibility = 'visible';
}"""


@pytest.mark.parametrize("name", [*SAMPLES, "two", "light"])
def test_no_error_no_request_and_no_sideways_scrolling(browser: Any, pages: Pages, name: str) -> None:
    with opened(browser, pages[name], viewport={"width": WIDTHS[0], "height": 900}) as found:
        found.page.evaluate(OPEN_ALL)
        for width in WIDTHS:
            found.page.set_viewport_size({"width": width, "height": 900})
            wide, inner = found.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= inner == width
        light = found.page.evaluate("getComputedStyle(document.body).color")
        found.page.emulate_media(color_scheme="dark")
        assert found.page.evaluate("getComputedStyle(document.body).color") != light
        assert found.page.evaluate("typeof window.hacked") == "undefined"


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_published_page_is_quiet_and_fits_every_width(browser: Any, path: Path) -> None:
    with opened(browser, path, viewport={"width": WIDTHS[0], "height": 900}) as found:
        found.page.evaluate(OPEN_ALL)
        for width in WIDTHS:
            found.page.set_viewport_size({"width": width, "height": 900})
            wide, inner = found.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= inner == width
        empty = found.page.evaluate(
            "[...document.querySelectorAll('figure > svg')].filter(one => !one.querySelector('path, circle')).length"
        )
        assert empty == 0


def test_a_row_opens_with_the_keyboard_and_shows_its_command(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        summary = found.page.locator("table.all summary").first
        summary.focus()
        found.page.keyboard.press("Enter")
        evidence = found.page.locator("table.all .evidence").first
        assert evidence.is_visible()
        assert "bench run suites/attention.yaml" in summary.inner_text()
        evidence.get_by_role("button", name="Copy the command").wait_for(state="visible")


def test_a_light_page_unpacks_its_data_for_an_opened_row_and_saves_them_as_json(browser: Any, pages: Pages, tmp_path: Path) -> None:
    with opened(browser, pages["light"]) as found:
        row = found.page.locator("table.all > tbody", has=found.page.locator("th", has_text="flex")).first
        row.locator("summary").click()
        shape = row.locator("svg.shape")
        shape.wait_for()
        assert shape.locator("circle").count() == 4
        assert str(shape.get_attribute("aria-label")).startswith("4 trial medians from 672 µs to ")
        with found.page.expect_download() as download:
            found.page.locator("#save").click()
        download.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == json.loads(
        data_text(pages["light"].read_text(encoding="utf-8"))
    )


def test_an_opened_row_draws_its_trial_medians_and_the_histogram_of_its_samples(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        row = found.page.locator("table.all > tbody", has=found.page.locator("th", has_text="flex")).first
        row.locator("summary").click()
        shape = row.locator("svg.shape")
        shape.wait_for()
        assert shape.locator("circle").count() == 4
        assert shape.locator("rect").count() > 2
        assert str(shape.get_attribute("aria-label")).startswith("4 trial medians from 672 µs to ")


def test_without_scripts_rows_still_open_and_no_dead_control_is_shown(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"], java_script_enabled=False) as found:
        page = found.page
        page.locator("table.all summary").first.click()
        assert page.locator("table.all .evidence").first.is_visible()
        assert not page.locator(".tools").first.is_visible()
        assert not page.locator("#save").is_visible()
        page.locator(".use summary").first.click()
        assert page.locator(".use pre").first.is_visible()
        assert page.locator(".view").first.is_visible()
        assert page.locator("button").count() == page.locator("button:not(:visible)").count()


def test_filters_say_how_many_rows_they_hide_and_live_in_the_address(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["plain"]) as found:
        page = found.page
        page.get_by_role("button", name="OOM 4").click()
        assert page.get_by_role("status").inner_text() == "4 of 108 rows shown, 104 hidden"
        page.get_by_role("combobox", name="pass").select_option("backward")
        assert page.get_by_role("status").inner_text() == "2 of 108 rows shown, 106 hidden"
        page.reload()
        assert page.get_by_role("status").inner_text() == "2 of 108 rows shown, 106 hidden"
        assert page.get_by_role("combobox", name="pass").input_value() == "backward"
        page.get_by_role("searchbox").fill("no such thing")
        assert page.get_by_role("status").inner_text().startswith("0 of 108")


def test_what_is_no_news_can_be_hidden_and_the_count_is_shown(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        button = found.page.get_by_role("button", name="Hide noise (1)")
        button.click()
        assert found.page.get_by_role("status").inner_text() == "14 of 15 rows shown, 1 hidden"
        assert button.get_attribute("aria-pressed") == "true"
        hidden = found.page.locator("table.all > tbody[hidden]")
        assert [text.strip()[:6] for text in hidden.locator("td.vs").all_text_contents()] == ["= same", "= same"]
        button.click()
        assert found.page.get_by_role("status").inner_text() == ""


def test_a_verdict_is_a_facet_like_any_axis(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        found.page.get_by_role("combobox", name="time against sdpa_flash").select_option("better")
        shown = found.page.locator("table.all > tbody:not([hidden])")
        assert shown.count() == 2
        assert shown.locator("th[scope=row]").all_text_contents() == ["flex", "flex"]


def test_one_workload_of_several_can_be_shown_alone(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["two"]) as found:
        found.page.get_by_role("combobox", name="Workload").select_option("train_step")
        seen = [part.get_attribute("data-w") for part in found.page.locator("section.workload:visible").all()]
        assert seen == ["train_step"]
        assert "w=train_step" in found.page.url
        found.page.reload()
        assert found.page.locator("section.workload:visible").count() == 1


UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "KiB": 2.0**10, "MiB": 2.0**20}


def test_sorting_puts_rows_without_a_number_last_both_ways(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["plain"]) as found:
        for head, column in (("time", 5), ("peak", 10)):
            cells = (
                f"[...document.querySelectorAll('table.all > tbody')].map(body => body.rows[0].cells[{column}].textContent.trim())"
            )
            header = found.page.get_by_role("button", name=head, exact=True)
            for direction in (1, -1):
                header.click()
                texts = found.page.evaluate(cells)
                numbers = [float(text.split()[0]) * UNITS[text.split()[1]] * direction for text in texts if text != "–"]
                assert len(numbers) > 50
                assert numbers == sorted(numbers)
                assert set(texts[len(numbers) :]) == {"–"}


def test_sorting_by_a_verdict_goes_by_its_ratio_and_lives_in_the_address(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        found.page.get_by_role("button", name="time against sdpa_flash", exact=True).click()
        for _ in range(2):
            texts = found.page.locator("table.all > tbody td.vs:nth-of-type(6) b").all_inner_texts()
            ratios = [float(text.partition("×")[0]) for text in texts]
            assert len(ratios) == 9
            assert ratios == sorted(ratios)
            found.page.reload()


def test_a_cell_of_the_matrix_leads_to_its_open_row(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["compat"]) as found:
        link = found.page.locator(".compat td a").first
        target = str(link.get_attribute("href"))
        link.click()
        found.page.wait_for_function("id => document.getElementById(id).querySelector('details').open", arg=target[1:])


def test_an_address_of_a_row_opens_it(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        row = str(found.page.locator("table.all > tbody").nth(5).get_attribute("id"))
    with opened(browser, pages["crossing"], anchor=f"#{row}") as found:
        assert found.page.locator(f"[id='{row}'] .evidence").is_visible()


def test_an_opened_step_shows_its_curve_and_every_part_is_painted(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["step"]) as found:
        page = found.page
        page.locator("table.all summary").first.click()
        assert page.locator("table.all svg.timeline").first.is_visible()
        fills = page.evaluate(
            "[...document.querySelectorAll('svg [fill^=url], svg [style*=url]')].map(e => getComputedStyle(e).fill)"
        )
        wanted = {fill.split("#")[1].rstrip('")') for fill in fills if "#part" in fill}
        assert len(wanted) > 5
        assert page.evaluate("names => names.every(name => document.getElementById(name))", list(wanted))


def test_settings_are_copied_from_the_first_screen(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"], permissions=["clipboard-read", "clipboard-write"]) as found:
        page = found.page
        use = page.locator(".use").first
        use.locator("summary").focus()
        page.keyboard.press("Enter")
        use.get_by_role("button", name="Copy").click()
        use.get_by_role("button", name="Copied").wait_for()
        assert 'attn_implementation="flex_attention"' in page.evaluate("navigator.clipboard.readText()")


def test_the_data_of_the_page_can_be_saved_and_is_json(browser: Any, pages: Pages, tmp_path: Path) -> None:
    with opened(browser, pages["hostile"]) as found:
        with found.page.expect_download() as download:
            found.page.locator("#save").click()
        download.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["trials"]["rows"]


def test_it_prints_on_white_without_controls(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"], color_scheme="dark") as found:
        assert found.page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        found.page.emulate_media(media="print")
        assert found.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not found.page.locator(".tools").first.is_visible()
        assert found.page.pdf()[:4] == b"%PDF"
