"""Each case beside its baseline, by the project's rules and in five words."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bench.judge.verdict import BETTER, CANNOT_TELL, DID_NOT_RUN, READER_WORDS, SAME, WORSE
from bench.records import Result, Status
from bench.report import render_page
from bench.report.answers.against import OTHER, Judged, Pair, judge, judged
from bench.report.numbers.layout import sections
from bench.report.numbers.summary import PEAK, TIME, gather
from bench.run.commands import with_trials
from tests import factories
from tests.report.chromium import NOW
from tests.report.step_sample import quantized_run
from tests.report.views_sample import crossing_run

OK = str(Status.OK)


def _pair(first: list[float], second: list[float], **changes: object) -> Pair:
    return dataclasses.replace(Pair(TIME, "attention", {"": first}, {"": second}, OK, OK), **changes)  # type: ignore[arg-type]


def _judged(rows: list[Result], run: object = None) -> Judged | None:
    made = run or crossing_run()[0]
    (section,) = sections(made, gather(made, rows)[0])  # type: ignore[arg-type]
    return judged(section)


def test_a_time_is_judged_by_its_interval_and_printed_with_it() -> None:
    worse, better, same = judge(
        [
            _pair([1.0, 1.001, 1.002], [1.2, 1.201, 1.202]),
            _pair([1.0, 1.001, 1.002], [0.5, 0.501, 0.502]),
            _pair([1.0, 1.001, 1.002], [1.001, 1.0, 1.002]),
        ]
    )
    assert [worse.word, better.word, same.word] == [WORSE, BETTER, SAME]
    assert worse.low is not None
    assert worse.high is not None
    assert worse.low < 1.2 < worse.high
    assert re.fullmatch(r"worse 1\.20× \(1\.\d\d–1\.\d\d\)", worse.text)


def test_two_trials_are_too_few_for_a_word() -> None:
    (found,) = judge([_pair([1.0, 1.001], [9.0, 9.001])])
    assert (found.word, found.low) == (CANNOT_TELL, None)
    assert found.ratio == pytest.approx(9.0, rel=0.01)


@pytest.mark.parametrize(
    ("base", "own", "word"),
    [
        (OK, "oom", DID_NOT_RUN), (OK, "unavailable", DID_NOT_RUN), (OK, "incorrect", WORSE), (OK, "invalid", CANNOT_TELL),
        ("oom", OK, BETTER), ("unavailable", OK, CANNOT_TELL), ("", OK, CANNOT_TELL),
    ],
)  # fmt: skip
def test_how_trials_ended_goes_before_any_number(base: str, own: str, word: str) -> None:
    (found,) = judge([_pair([1.0] * 3, [0.1] * 3, first_status=base, second_status=own)])
    assert found.word == word
    assert found.ratio is None


def test_who_computes_something_else_is_neither_better_nor_worse() -> None:
    run, rows = quantized_run()
    found = _judged(rows, run)
    assert found
    words = {key: entry.word for key, entry in found.time.items()}
    assert sorted(words.values()) == [BETTER, OTHER, OTHER]
    assert found.counts(TIME)[-1] == (OTHER, 2)


def test_the_five_words_are_counted_over_all_cases_but_the_baselines() -> None:
    _, rows = crossing_run()
    found = _judged(rows)
    assert found
    assert found.baseline == "sdpa_flash"
    assert found.counts(TIME) == tuple(zip(READER_WORDS, (6, 2, 1, 0, 1), strict=True))
    assert sum(n for _, n in found.counts(PEAK)) == 10


def test_the_first_screen_has_the_five_words_with_their_counts() -> None:
    run, rows = crossing_run()
    page = render_page([run], rows, now=NOW)
    text = re.sub(r"<[^>]+>", "", page[page.index('<dl class="words"') : page.index('<p class="counts"')])
    assert "Time against sdpa_flash6 worse 2 better 1 same 0 can&#39;t tell 1 didn&#39;t run" in " ".join(text.split())


def test_without_a_baseline_nothing_is_called_better_or_worse() -> None:
    _, rows = crossing_run()
    run = factories.run(id="run-x", suite_data={"workload": "attention"})
    assert _judged(rows, run) is None
    page = render_page([run], rows, now=NOW)
    assert '<dl class="words"' not in page
    assert 'class="vs' not in page


def test_every_row_says_what_it_is_beside_its_baseline() -> None:
    run, rows = crossing_run()
    page = render_page([run], rows, now=NOW)
    cells = re.findall(r'<td class="vs">(.) ([^<]+)', page)
    assert sorted(word.strip() for _, word in cells[::2]) == sorted([WORSE] * 6 + [BETTER] * 2 + [SAME] + ["didn&#39;t run"])
    assert {symbol for symbol, _ in cells} == set("▲▼=×")
    assert page.count('<td class="vs none">baseline') == 2 * 5


def test_an_opened_row_says_why_and_what_would_settle_it() -> None:
    run, rows = crossing_run(trials=2)
    page = render_page([run], rows, now=NOW)
    assert "Time against sdpa_flash: <b>can&#39;t tell</b>, 2 processes on a side: an interval needs 3" in page
    assert "With 5 trials a side it could be told:" in page
    assert "bench run suites/attention.yaml --profile cpu --trials 5</pre>" in page
    assert with_trials("bench run x --trials 2 --device cpu", 7) == "bench run x --trials 7 --device cpu"
