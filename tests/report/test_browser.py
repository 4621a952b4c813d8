"""The page in a real Chromium: quiet, offline, narrow enough, and usable with a keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.report import render_page
from tests.report.gpu_sample import gpu_run
from tests.report.hostile import hostile
from tests.report.sample import everything
from tests.report.step_sample import quantized_run, step_run

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

if not CHROMIUM.exists():
    pytest.skip("chromium is not installed (apt-get install chromium)", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


class Opened:
    """A page with what it said and what it asked for."""

    def __init__(self, browser: sync_api.Browser, path: Path, **context: object) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    gpu, rows = gpu_run()
    few, few_rows = gpu_run(sizes=(1024, 4096))
    step, step_rows = step_run(trials=1)
    formats, format_rows = quantized_run()
    pages = {
        "step": ([step], step_rows),
        "formats": ([formats], format_rows),
        "plain": everything(trials=2),
        "hostile": hostile(),
        "gpu": ([gpu], rows),
        "few": ([few], few_rows),
    }
    for name, (runs, results) in pages.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(render_page(runs, results, now="2026-01-02T04:00:00+00:00"), encoding="utf-8")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1440])
@pytest.mark.parametrize("name", ["plain", "hostile", "gpu", "few", "step", "formats"])
def test_no_error_no_request_and_no_sideways_scrolling(
    browser: sync_api.Browser, files: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    opened = Opened(browser, files[name], viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    opened.page.evaluate("for (const rows of document.querySelectorAll('.rows')) rows.style.contentVisibility = 'visible'")
    wide, inner = opened.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    hacked = opened.page.evaluate("typeof window.hacked")
    opened.context.close()
    assert opened.said == []
    assert opened.asked == [files[name].as_uri()]
    assert wide <= inner
    assert hacked == "undefined"


def test_a_row_opens_with_the_keyboard_and_shows_its_command(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["plain"])
    summary = opened.page.locator("table.all summary").first
    summary.focus()
    opened.page.keyboard.press("Enter")
    evidence = opened.page.locator("table.all .evidence").first
    assert evidence.is_visible()
    assert "bench run suites/attention.yaml" in summary.inner_text()
    assert evidence.get_by_role("button", name="Copy the command").is_visible()
    assert opened.page.locator("table.all details").first.evaluate("d => d.open")
    opened.context.close()


def test_without_scripts_rows_still_open_and_no_dead_control_is_shown(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["plain"], java_script_enabled=False)
    opened.page.locator("table.all summary").first.click()
    assert opened.page.locator("table.all .evidence").first.is_visible()
    assert not opened.page.locator(".tools").first.is_visible()
    assert not opened.page.locator("#save").is_visible()
    opened.context.close()


def test_filters_say_how_many_rows_they_hide_and_live_in_the_address(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["plain"])
    page = opened.page
    page.get_by_role("button", name="OOM 4").click()
    assert page.get_by_role("status").inner_text() == "4 of 108 rows shown, 104 hidden"
    page.reload()
    assert page.get_by_role("status").inner_text() == "4 of 108 rows shown, 104 hidden"
    page.get_by_role("searchbox").fill("no such thing")
    assert page.get_by_role("status").inner_text().startswith("0 of 108")
    assert opened.said == []
    opened.context.close()


def test_sorting_by_time_puts_rows_without_a_time_last_both_ways(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["plain"])
    cells = "[...document.querySelectorAll('table.all > tbody')].map(body => body.rows[0].cells[5].dataset.v ?? null)"
    header = opened.page.get_by_role("button", name="time", exact=True)
    for direction in (1, -1):
        header.click()
        values = opened.page.evaluate(cells)
        numbers = [float(v) * direction for v in values if v is not None]
        assert numbers == sorted(numbers)
        assert all(v is None for v in values[len(numbers) :])
    opened.context.close()


def test_a_cell_of_the_matrix_leads_to_its_open_row(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["plain"])
    link = opened.page.locator("table.matrix td a").first
    target = str(link.get_attribute("href"))
    link.click()
    opened.page.wait_for_function("id => document.getElementById(id).querySelector('details').open", arg=target[1:])
    opened.context.close()


def test_an_opened_step_shows_its_curve_and_every_part_is_painted(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["step"])
    page = opened.page
    page.locator("table.all summary").first.click()
    assert page.locator("table.all svg.timeline").first.is_visible()
    fills = page.evaluate("[...document.querySelectorAll('svg [fill^=url], svg [style*=url]')].map(e => getComputedStyle(e).fill)")
    wanted = {fill.split("#")[1].rstrip('")') for fill in fills if "#part" in fill}
    assert len(wanted) > 5
    assert page.evaluate("names => names.every(name => document.getElementById(name))", list(wanted))
    opened.context.close()


def test_the_data_of_the_page_can_be_saved_and_is_json(browser: sync_api.Browser, files: dict[str, Path], tmp_path: Path) -> None:
    opened = Opened(browser, files["hostile"])
    with opened.page.expect_download() as download:
        opened.page.locator("#save").click()
    download.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["schema"] == 1
    opened.context.close()


def test_it_prints(browser: sync_api.Browser, files: dict[str, Path]) -> None:
    opened = Opened(browser, files["plain"], color_scheme="dark")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.page.pdf()[:4] == b"%PDF"
    opened.context.close()
