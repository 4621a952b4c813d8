"""What stands between the statements of a page is held too: headings, heads, captions, words of charts, commands, and what is hidden."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from bench.lang.messages import language
from bench.lang.pages import page_in
from bench.report import render_page
from bench.report.recompute.aligned import differences
from bench.report.recompute.frame import BELOW, CHARTS, FIXED, HIDDEN
from bench.report.recompute.verify import verify_page
from bench.report.views.rows import Depth
from tests import factories
from tests.report.chromium import sample

NOW = "2026-01-02T04:00:00+00:00"


@pytest.fixture(scope="module")
def rendered() -> Callable[[str, bool], str]:
    """Samples as pages, each rendered once."""
    made: dict[tuple[str, bool], str] = {}

    def page_of(name: str, light: bool) -> str:
        if (name, light) not in made:
            made[name, light] = render_page(*sample(name), now=NOW, light=light)
        return made[name, light]

    return page_of


FORGED = [
    ("ladder", r"<summary><h3>(\w[^<]*)<", "backward", FIXED),
    ("crossing", r"<dt>(Time against \w+)<", "Time against flex", FIXED),
    ("crossing", r'<table class="?all"?>.*?>(time)<', "peak", FIXED),
    ("crossing", r'class="?plain scores"?>.*?>(best time)<', "worst time", FIXED),
    ("crossing", r"<caption>Time per call, [^<]*?(× of \w+)", "× of flex", FIXED),
    ("crossing", r"<figcaption><b>(Time per call)<", "Peak memory", FIXED),
    ("gpu", r"<h3>(What is doubtful)<", "What is certain", FIXED),
    ("gpu", r"<h3>Every row <span[^>]*>(\d+)<", "77", FIXED),
    ("gpu", r"<title>(.*?)</title>", "flex is the fastest", FIXED),
    ("gpu", r"rendered (2026-01-02)", "2027-01-02", FIXED),
    ("gpu", r"</article>()", "<p>flex is three times as fast</p>", FIXED),
    ("crossing", r"<svg [^>]*role=\"?img.*?<text[^>]*>(\d+)", "77", CHARTS),
    ("crossing", r'role="?img"? aria-label="(time)', "memory", CHARTS),
    ("gpu", r"<section()[^>]*class=\"?doubts", " hidden", HIDDEN),
    ("gpu", r"()<section[^>]*class=\"?doubts", "<template>", HIDDEN),
    ("gpu", r"<summary><code[^>]*>bench run ([^ <]+)", "mine.yaml", BELOW),
]  # fmt: skip


@pytest.mark.parametrize("light", [False, True], ids=["full", "light"])
@pytest.mark.parametrize(("name", "pattern", "put", "what"), FORGED, ids=lambda value: str(value)[:30])
def test_what_says_what_a_number_is_cannot_be_changed(
    rendered: Callable[[str, bool], str], name: str, pattern: str, put: str, what: str, light: bool
) -> None:
    page = rendered(name, light)
    place = re.search(pattern, page, flags=re.S)
    assert place, "the sample has none"
    found = verify_page(page[: place.start(1)] + put + page[place.end(1) :])
    assert not found.agrees
    # The command of a row is stated where all its evidence is.
    assert what in {difference.what for difference in found.differences} or (not light and what == BELOW)


def test_a_bar_is_as_long_as_its_number(rendered: Callable[[str, bool], str]) -> None:
    page = rendered("ladder", False)
    found = verify_page(re.sub(r'class="?bar"? style="width:\d+', 'class="bar" style="width:1', page, count=1))
    assert {difference.what for difference in found.differences} == {HIDDEN}


def test_two_numbers_of_one_part_that_changed_places_are_noticed(rendered: Callable[[str, bool], str]) -> None:
    page = rendered("crossing", False)
    time, memory = re.findall(r"<dd data-q=T\d+>.*?</dd>", page, flags=re.S)[:2]
    assert time != memory
    found = verify_page(page.replace(time, "\0").replace(memory, time).replace("\0", memory))
    assert {difference.what for difference in found.differences} == {FIXED}


def test_of_a_page_no_word_outside_of_evidence_can_be_changed_unnoticed(rendered: Callable[[str, bool], str]) -> None:
    page = rendered("crossing", True)
    shown = re.sub(
        r"<(script|style)\b.*?</\1>|<div class=\"?evidence.*?</details>|<[^<>]*>",
        lambda found: "\0" * len(found[0]),
        page,
        flags=re.S,
    )
    places = [found.span() for found in re.finditer(r"(?<![&#\w])[A-Za-z]{3,}", shown)]
    assert len(places) > 400
    for start, end in random.Random(7).sample(places, 25):
        found = verify_page(f"{page[:start]}{page[start:end][::-1]}x{page[end:]}")
        assert not found.agrees, page[start - 80 : end + 20]


@pytest.mark.parametrize(
    ("pattern", "put", "words"),
    [
        (r"()</style>", ".doubts{display:none}", "style sheet"),
        (r"(<h3>What is doubtful</h3>)", "", "words that this version writes are not there"),
        (r"<script>()", "document.title='';", "script"),
        (r"role=\"?img.*?<path[^>]* d=\"(M[^\"]*)", "M1 1H5", "lines of 1 of"),
    ],
)
def test_what_only_looks_otherwise_is_told_and_no_difference(
    rendered: Callable[[str, bool], str], pattern: str, put: str, words: str
) -> None:
    page = rendered("crossing", True)
    assert verify_page(page).unlike == ()
    place = re.search(pattern, page, flags=re.S)
    assert place
    found = verify_page(page[: place.start(1)] + put + page[place.end(1) :])
    assert found.agrees
    (said,) = found.unlike or ()
    assert words in said


def test_a_run_without_a_baseline_says_that_nothing_is_judged_and_its_pages_agree() -> None:
    for baseline, why in ((None, "since the suite names no baseline"), ({"attention": "flash"}, "has no row at these points")):
        run = factories.run(id="run-1", suite_data={"baseline": baseline})
        rows = [
            factories.result(run.id, factories.case(name), index=index, time_s=1.0 + 0.01 * index)
            for name in ("eager", "flex")
            for index in range(3)
        ]
        page = render_page([run], rows, now=NOW, light=True)
        assert page.count("No case is judged worse, better or the same") == 1
        assert why in page
        assert verify_page(page).unlike == ()
        assert not verify_page(page.replace("No case is judged worse", "No case is worse")).agrees
    alone = render_page([run], rows[:3], now=NOW)
    assert "No case is judged" not in alone


def test_very_many_pieces_are_aligned_where_few_are_repeated() -> None:
    right = [text for number in range(3000) for text in (f"row {number}", "–", "ok")]
    printed = [*right[:50], "row 0.5", *right[50:4000], *right[4001:]]
    assert list(differences(printed, right)) == [
        (f"after {right[49]!r}", "row 0.5", ""),
        (f"after {right[3999]!r}", "", right[4000]),
    ]


def test_a_page_in_another_language_is_held_in_its_own_words(rendered: Callable[[str, bool], str]) -> None:
    page = page_in(rendered("crossing", True), language("zh-TW"))
    found = verify_page(page)
    assert (found.agrees, found.unlike) == (True, ())
    heading = re.search(r"<figcaption><b>([^<]+)<", page)
    assert heading
    assert not verify_page(page.replace(heading[1], "記憶體", 1)).agrees


def test_ends_of_lines_that_a_mail_changed_are_no_difference(rendered: Callable[[str, bool], str]) -> None:
    found = verify_page(rendered("crossing", True).replace("\n", "\r\n"))
    assert (found.agrees, found.unlike) == (True, ())


def test_a_page_that_differs_in_its_numbers_is_not_drawn_again(rendered: Callable[[str, bool], str]) -> None:
    found = verify_page(rendered("gpu", True).replace(" faster than", " slower than", 1))
    assert (found.agrees, found.unlike) == (False, None)


@pytest.mark.parametrize(("count", "light"), [(10, True), (10, False), (2000, True), (2000, False)])
def test_the_depth_that_a_page_names_is_the_one_that_it_was_written_in(count: int, light: bool) -> None:
    depth = Depth.for_cases(count, light=light)
    assert Depth.named(depth.name, count) == depth
