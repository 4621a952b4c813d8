"""Several runs of one suite are told apart by what they were asked, and those that answer are shown first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bench.lang.messages import language
from bench.lang.pages import page_in
from bench.records import Run
from bench.report import render_markdown, render_page
from bench.report.numbers.summary import CaseSummary, gather
from bench.report.recompute.verify import verify_page
from bench.report.views.told_apart import LONGEST_CHARS, asked_words, in_shown_order, name_in_list, suite_words
from tests import factories
from tests.report.chromium import NOW
from tests.report.views.sharding_sample import Made, shared_run


def asked(profile: str | None = None, sets: tuple[str, ...] = (), filters: tuple[str, ...] = (), **more: Any) -> Run:
    options = {"profile": profile, "sets": list(sets), "filters": list(filters)}
    return factories.run(**{"suite": "zero", "options": options, **more})


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (asked("8b"), "profile 8b"),
        (asked("fp16", ("world_size=1",), ("sharding=zero2",)), "profile fp16, world_size=1, sharding=zero2"),
        (asked(None, ("layers=4",), ("layers=4",)), "layers=4"),
        (asked("8b", ("protocol.trials=5", "layers=4")), "profile 8b, layers=4"),
        (asked(None, (), (f"linear={'plain,' * 9}int8", "dtype=bf16")), "linear=plain,plain,plain,plain,plain,pl…, dtype=bf16"),
        (asked(), ""),
        (factories.run(options={"filters": ["layers=4"]}), ""),
    ],
)
def test_a_run_is_told_by_its_profile_what_was_set_and_what_was_picked(run: Run, words: str) -> None:
    assert asked_words(run) == name_in_list(run) == words


def test_long_words_are_cut_and_a_label_stands_instead_of_them_in_the_list() -> None:
    long = asked("8b", tuple(f"subjects.sharding=zero{n}" for n in range(9)))
    assert len(asked_words(long)) == LONGEST_CHARS
    assert asked_words(long).endswith("…")
    labelled = asked("8b", label="nightly")
    assert name_in_list(labelled) == "nightly"
    assert suite_words(labelled) == "Suite zero, profile 8b · nightly"
    assert suite_words(replace(labelled, options={}, label=None)) == "Suite zero"


def measured(run: Run, sizes: tuple[int, ...], *, timed: bool = True) -> tuple[Run, list[CaseSummary]]:
    metric = factories.measurement("time_s", (0.1,)) if timed else factories.measurement("peak_bytes", (1.0,))
    rows = [factories.result(run.id, factories.case(seq_len=size), measurements=(metric,)) for size in sizes]
    return run, gather(run, rows)[0]


def test_what_shows_a_time_comes_first_then_what_has_more_cases_then_the_older_and_suites_stay_as_asked() -> None:
    made = [
        measured(factories.run(id="untimed", suite="b", started_at="2026-01-01T00:00:00+00:00"), (1, 2, 3), timed=False),
        measured(factories.run(id="of a", suite="a"), (1, 2, 3, 4)),
        measured(factories.run(id="late", suite="b", started_at="2026-01-03T00:00:00+00:00"), (1,)),
        measured(factories.run(id="early", suite="b", started_at="2026-01-02T00:00:00+00:00"), (1,)),
        measured(factories.run(id="large", suite="b", started_at="2026-01-04T00:00:00+00:00"), (1, 2)),
        (factories.run(id="empty", suite="b"), []),
    ]
    cases: Mapping[str, list[CaseSummary]] = {run.id: own for run, own in made}
    order = [run.id for run in in_shown_order([run for run, _ in made], cases)]
    assert order == ["large", "early", "late", "untimed", "empty", "of a"]


@pytest.fixture(scope="module")
def two() -> list[Made]:
    """One run on one rank, and a later one with more cases on two."""
    made = []
    for ranks, shardings in ((1, ("ddp",)), (2, ("ddp", "fsdp2"))):
        run, rows = shared_run(shardings, (ranks,), trials=1)
        options = {"profile": "published", "sets": [], "filters": [f"world_size={ranks}"]}
        run = replace(run, id=f"run-{ranks}", started_at=f"2026-01-02T0{ranks}:00:00+00:00", options=options)
        made.append((run, [replace(row, id=f"{row.id}-{ranks}", run_id=run.id) for row in rows]))
    return made


def rendered(made: list[Made], **options: Any) -> str:
    runs = [replace(run, options=options.get("of_run", run.options)) for run, _ in made]
    return render_page(runs, [row for _, rows in made for row in rows], now=NOW)


@pytest.fixture(scope="module")
def page(two: list[Made]) -> str:
    return rendered(two)


def text_of(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def test_list_and_headings_tell_runs_apart_and_what_is_told_together_stands_with_the_first_shown(
    two: list[Made], page: str
) -> None:
    links = [text_of(link) for link in re.findall(r"<a href=\"?#run\d+\"?>.*?</a>", page, re.S)]
    told = ["profile published, world_size=2", "profile published, world_size=1"]
    assert links == [f"What does each stage save? {words}" for words in told]
    assert re.findall(r"class=\"?eyebrow\b[^>]*>([^<]*)<", page) == [f"Suite shared, {words}" for words in told]
    assert (
        page.index("What more GPUs come to")
        < page.index('id="run2"')
        < page.index("told together with the run of 2026-01-02 02:00")
    )
    assert rendered(two[::-1]) == page
    markdown = render_markdown([run for run, _ in two], [row for _, rows in two for row in rows])
    assert markdown.index("world\\_size=2") < markdown.index("world\\_size=1")


def test_pages_of_several_runs_agree_in_each_language_and_as_older_versions_wrote_them(two: list[Made], page: str) -> None:
    turned = page_in(page, language("zh-TW"))
    assert "測試組 shared，設定檔 published, world_size=2" in turned
    assert verify_page(turned).agrees
    assert not verify_page(page.replace("Suite shared, profile published", "Suite shared, profile 8b")).agrees
    older = rendered(two, of_run={"filters": ["world_size=2"]})
    assert "profile published" not in text_of(older[older.index("<nav") : older.index("<main")])
    assert verify_page(older).agrees
