"""Pages that travel light pack rows, panels, further runs and what is closed: edits are found, a browser puts it back."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.lang import language
from bench.lang.pages import page_in
from bench.report import render_page
from bench.report.outputs.folded import BEGINNING, FORMER_NOTICE, NOTICE, PLACE, folded, unfolded
from bench.report.recompute.verify import verify_page
from bench.store import Store
from bench.store.packed import packed, unpacked
from bench.store.page_data import END, NoPage
from tests.report.chromium import NOW, opened, sample

PHONE = {"width": 390, "height": 844}
BODIES = "table.all > tbody"


@pytest.fixture(scope="module")
def light() -> Callable[[str], str]:
    """Samples as open pages that are to travel light, each rendered once."""
    made: dict[str, str] = {}

    def page_of(name: str) -> str:
        if name not in made:
            made[name] = render_page(*sample(name), now=NOW, light=True)
        return made[name]

    return page_of


def parts_of(page: str) -> list[str]:
    found: list[str] = json.loads(unpacked(page.partition(BEGINNING)[2].partition(END)[0], 2**20))
    return found


def with_parts(page: str, parts: object) -> str:
    head, _, rest = page.partition(BEGINNING)
    return f"{head}{BEGINNING}{packed(json.dumps(parts))}{END}{rest.partition(END)[2]}"


@pytest.mark.parametrize("name", ["two", "plain", "hostile", "step"])
def test_what_is_unfolded_is_what_was_folded_to_the_last_character(light: Callable[[str], str], name: str) -> None:
    page = light(name)
    small = folded(page)
    assert unfolded(small) == unfolded(page) == page
    assert folded(small) == small
    assert '<tbody id="r-' not in small
    assert len(small) < len(page)


def test_of_the_first_run_a_panel_and_every_heading_stay_open_and_what_a_part_leaves_is_an_ellipsis(
    light: Callable[[str], str],
) -> None:
    page, small = light("two"), folded(light("two"))
    first, second = (found.start() for found in re.finditer("<article", small))
    panel = small.index("<details class=facet", first)
    assert "<svg" in small[panel:second]
    assert small.count("<summary>") + "".join(parts_of(small)).count("<summary>") == page.count("<summary>")
    heads = re.findall(rf"<section class=rows[^>]*>\s*<h3>.*?</h3>{PLACE}</section>", small)
    assert len(heads) == page.partition("</article>")[0].count("<section class=rows")
    assert small.count(PLACE) == len(parts_of(small)) > 5


def test_of_another_run_the_question_its_judged_numbers_and_what_to_use_stay_open(light: Callable[[str], str]) -> None:
    second = folded(light("two")).partition("</article>")[2].partition("</article>")[0]
    for said in ("What does each technique buy?", "Time against defaults", "18</strong> of 18", "Use <b>3: + fused optimizer</b>"):
        assert said in second
    shut = re.findall(rf"<(\w+ class=\w+)[^>]*>{PLACE}</(?:div|section)>", second)
    assert shut == ["div class=second", "section class=workload", "section class=environment"]


@pytest.mark.parametrize("name", ["en", "zh-TW"])
def test_the_notice_of_older_pages_is_read_back(light: Callable[[str], str], name: str) -> None:
    page = light("plain") if name == "en" else page_in(light("plain"), language(name))
    own = None if name == "en" else language(name)
    now, then = (re.sub("`(.*?)`", r"<code>\1</code>", text if own is None else own.said(text)) for text in (NOTICE, FORMER_NOTICE))
    small = folded(page)
    assert now != then
    assert unfolded(small.replace(f">{now}<", f">{then}<")) == unfolded(small) == page
    assert f">{now}<" in small


def test_a_page_without_parts_stays_as_it_is() -> None:
    page = re.sub(r"<section class=method.*?</section>", "", render_page([], [], now=NOW, light=True), flags=re.S)
    assert "No runs" in page
    assert folded(page) == page


def test_letters_that_utf_8_cannot_hold_are_told_as_in_an_open_page() -> None:
    page = '<main id="main"><details><summary>a</summary>' + "b \udc80" * 99 + "</details></main><script>1</script>"
    assert unfolded(folded(page)) == page.encode("utf-8", "backslashreplace").decode()


def test_a_packed_page_agrees_as_an_open_one_does_in_either_language(light: Callable[[str], str]) -> None:
    open_page = light("crossing")
    assert verify_page(folded(open_page)) == verify_page(open_page)
    chinese = folded(page_in(open_page, language("zh-TW")))
    assert "2023 年以後的瀏覽器" in chinese
    assert NOTICE.partition("`")[0] not in chinese
    assert any(re.search("[\u4e00-\u9fff]", part) for part in parts_of(chinese))
    found = verify_page(chinese)
    assert (found.agrees, found.unlike) == (True, ())


EDITS = [
    (r"<tbody id=[^>]*>.*?<td>(\d[\d.]* [mµ]s)", "1.23 ms"),
    (r"<tbody id=[^>]*><tr><td>(ok)<", "oom"),
    (r"<td class=vs>. (better|worse)", "same"),
    (r"<summary><code[^>]*>bench run ([^ <]+)", "mine.yaml"),
    (r"<th[^>]*>(range over trials)<", "range over samples"),
    (r"<th scope=row><div>(\w+)", "mine"),
    (r"(<tbody id=.*?)<tbody id=", ""),
    (r"<div class=\"?scroll tall()", " hidden"),
    (r"()<tr><td>ok", "<tr><td>9 ns</tr>"),
]


@pytest.mark.parametrize(("pattern", "put"), EDITS, ids=lambda value: str(value)[-24:])
def test_an_edit_of_what_is_packed_is_found_as_in_an_open_page(light: Callable[[str], str], pattern: str, put: str) -> None:
    small = folded(light("crossing"))
    parts = parts_of(small)
    place, found = next((place, found) for place, part in enumerate(parts) if (found := re.search(pattern, part, re.S)))
    parts[place] = parts[place][: found.start(1)] + put + parts[place][found.end(1) :]
    edited = with_parts(small, parts)
    told = verify_page(edited)
    assert not told.agrees
    assert told == verify_page(unfolded(edited))


def test_parts_that_changed_places_and_an_edited_notice_are_found(light: Callable[[str], str]) -> None:
    small = folded(light("two"))
    parts = parts_of(small)
    assert not verify_page(with_parts(small, parts[::-1])).agrees
    assert not verify_page(small.replace("A browser of 2023", "A browser of 2032")).agrees
    assert not verify_page(small.replace('<noscript id="packed">', '<noscript id="packed"><p>flex is the fastest</p>')).agrees


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda page: page.replace(PLACE, "", 1), "places for packed parts"),
        (lambda page: page.replace(PLACE, PLACE * 2, 1), "places for packed parts"),
        (lambda page: page.replace("<script>", "<p></p><script>"), "not where its script looks"),
        (lambda page: page.replace(BEGINNING, f"{BEGINNING}????", 1), "cannot be unpacked .*: it was changed on its way, take it anew"),
        (lambda page: page[: page.index(BEGINNING) + 500], "cut off in or behind its packed parts: take it anew"),
        (lambda page: page[: page.index(END, page.index(BEGINNING))], "cut off in or behind its packed parts: take it anew"),
        (lambda page: page.replace(BEGINNING, f"{BEGINNING}{packed('[]')}{END}{BEGINNING}", 1), None),
        (lambda page: with_parts(page, {"a": 1}), "no list of texts"),
        (lambda page: with_parts(page, [1]), "no list of texts"),
        (lambda page: with_parts(page, [PLACE]), "no list of texts"),
        (lambda page: with_parts(page, ["a"]), "and 1 parts"),
        (lambda page: re.sub(rf"{BEGINNING}[^<]*", f"{BEGINNING}{packed('[')}", page), "not valid JSON"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_put_back_are_told_in_words(
    light: Callable[[str], str], damage: Callable[[str], str], words: str | None
) -> None:
    small = folded(light("crossing"))
    damaged = damage(small)
    assert damaged != small
    if words is None:  # a list that no script looks at
        assert unfolded(damaged) == unfolded(small).replace("<script>", f"{BEGINNING}{packed('[]')}{END}<script>")
        return
    with pytest.raises(NoPage, match=words):
        verify_page(damaged)


def test_no_single_character_of_what_is_packed_can_be_changed(light: Callable[[str], str]) -> None:
    small = folded(light("crossing"))
    begin = small.index(BEGINNING) + len(BEGINNING)
    end = small.index(END, begin)
    draw = random.Random(7)
    for _ in range(60):
        at = draw.randrange(begin, end)
        other = draw.choice([letter for letter in "AQgw+/=<" if letter != small[at]])
        damaged = small[:at] + other + small[at + 1 :]
        with pytest.raises(NoPage):
            unfolded(damaged)


def test_a_packed_page_is_read_as_a_file_of_its_rows(light: Callable[[str], str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(folded(light("crossing")), encoding="utf-8")
    with Store.open(tmp_path / "here.db") as store:
        told = store.import_file(page)
        assert told.results_new == len(sample("crossing")[1])


@pytest.fixture(scope="module")
def travelling(tmp_path_factory: pytest.TempPathFactory, light: Callable[[str], str]) -> tuple[Path, Path]:
    """One page, open and packed."""
    folder = tmp_path_factory.mktemp("folded")
    for name, text in (("open", light("two")), ("packed", folded(light("two")))):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder / "open.html", folder / "packed.html"


DOM = """() => document.documentElement.outerHTML
  .replace(/<script type="application.zlib" id="parts">.*?<.script>/s, "").replace(/<noscript.*?<.noscript>/s, "")"""


def test_a_browser_makes_the_same_of_a_packed_page_as_of_an_open_one(browser: Any, travelling: tuple[Path, Path]) -> None:
    made = []
    for path in travelling:
        with opened(browser, path, viewport=PHONE) as found:
            made.append(found.page.evaluate(DOM))
            assert found.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert made[0] == made[1]
    assert made[0].count('<tbody id="r-') > 20


def test_packed_rows_are_filtered_sorted_found_and_printed(browser: Any, travelling: tuple[Path, Path]) -> None:
    with opened(browser, travelling[1], viewport={"width": 1280, "height": 900}) as found:
        page = found.page
        rows = page.locator(".rows", has=page.get_by_role("button", name="Hide noise")).first
        bodies = rows.locator(BODIES)
        before = bodies.count()
        rows.get_by_role("button", name="Hide noise").click()
        assert "rows shown" in rows.get_by_role("status").inner_text()
        rows.get_by_role("button", name="Hide noise").click()
        rows.get_by_role("searchbox").fill("flex")
        assert 0 < rows.locator(f"{BODIES}:not([hidden])").count() < before
        page.reload()
        found.settle()
        rows = page.locator(".rows", has=page.get_by_role("button", name="Hide noise")).first
        assert rows.get_by_role("searchbox").input_value() == "flex"
        rows.get_by_role("searchbox").fill("")
        rows.get_by_role("button", name="time", exact=True).click()
        assert rows.locator("th[aria-sort=ascending]").inner_text() == "time"
        assert page.evaluate("window.find('sdpa_math') || window.find('sdpa_flash')")
        page.emulate_media(media="print")
        assert page.locator(BODIES).first.is_visible()


def test_an_address_of_a_packed_row_or_panel_leads_there(browser: Any, travelling: tuple[Path, Path]) -> None:
    with opened(browser, travelling[1]) as found:
        row = str(found.page.locator(BODIES).nth(-2).get_attribute("id"))
        panel = str(found.page.locator("section.rows").last.get_attribute("id"))
    with opened(browser, travelling[1], anchor=f"#{row}") as found:
        target = found.page.locator(f"[id='{row}']")
        assert target.locator(".evidence").is_visible()
        assert found.page.evaluate("id => document.querySelector(':target').id === id", row)
        place = target.bounding_box()
        assert place is not None
        assert 0 <= place["y"] < found.page.viewport_size["height"]
    with opened(browser, travelling[1], anchor=f"#{panel}") as found:
        place = found.page.locator(f"[id='{panel}']").bounding_box()
        assert place is not None
        assert place["y"] < found.page.viewport_size["height"]


def test_who_has_no_script_or_an_old_browser_reads_what_to_do(browser: Any, travelling: tuple[Path, Path]) -> None:
    words = "bench report --from-file FILE"
    with opened(browser, travelling[1], viewport=PHONE, java_script_enabled=False) as found:
        assert found.page.locator("p.warn", has_text=words).is_visible()
        assert found.page.locator("i.packed:visible").count() > 1
        assert found.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    context = browser.new_context()
    context.add_init_script("delete window.DecompressionStream")
    page = context.new_page()
    page.goto(travelling[1].as_uri())
    page.locator("p.warn", has_text=words).wait_for()
    context.close()
    with opened(browser, travelling[1]) as found:
        assert found.page.locator("p.warn", has_text=words).count() == 0


def test_a_page_whose_packed_parts_are_damaged_says_so_and_what_is_open_works(
    browser: Any, travelling: tuple[Path, Path], tmp_path: Path
) -> None:
    page = travelling[1].read_text(encoding="utf-8")
    damaged = tmp_path / "damaged.html"
    damaged.write_text(page.replace(BEGINNING, f"{BEGINNING}[????", 1), encoding="utf-8")
    context = browser.new_context()
    found = context.new_page()
    found.goto(damaged.as_uri())
    found.locator("p.warn", has_text="bench report --from-file FILE").wait_for()
    assert found.locator("i.packed:visible").count() > 1
    # On a phone the cells of open tables still say what they are.
    assert found.evaluate("document.head.querySelectorAll('style').length") == 2
    context.close()
