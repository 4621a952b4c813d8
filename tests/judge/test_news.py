"""What a maintainer hears once though nothing is worse: another bench, rows that nobody asked for or that are invalid, a slower machine."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

from bench.judge.answer import answer
from bench.judge.compare import Comparison, compare
from bench.judge.confirm import _merged
from bench.judge.decided import decided
from bench.judge.environment_diff import Difference
from bench.judge.evidence import TrialRow
from bench.judge.verdict import Word
from bench.records import Status
from tests import factories
from tests.judge.sides import evidence, noisy, trials
from tests.judge.test_regress import night, split

CASES = tuple(factories.case(name) for name in ("eager", "sdpa_flash", "sdpa_math"))


def after(*last: dict[str, Any], status: Sequence[Status] = (Status.OK,) * 3, absent: int = 0, level: float = 1.0) -> Comparison:
    """Twelve nights of three cases that are all alike, and further ones with these changes to their runs, of cases that ended so."""
    rng = random.Random(5)
    runs = [night(number) for number in range(12)] + [night(12 + place, **changes) for place, changes in enumerate(last)]
    rows: list[TrialRow] = []
    for place, run in enumerate(runs):
        changed = place >= 12
        for of, ended in zip(CASES, status if changed else (Status.OK,) * 3, strict=True):
            if not (changed and of in CASES[:absent]):
                times = noisy(rng, 1e-2 * (level if changed else 1.0), 0.003, 3)
                rows += trials(of, times, run_id=run.id, status=ended, peak_bytes=1e8)
    return split(runs, rows, CASES)


def test_a_night_of_another_release_of_bench_says_so_once_and_each_of_its_commits_is_in_the_banners() -> None:
    upgraded = after({"harness_version": "0.2.0"})
    assert upgraded.news == ("this night was measured by bench 0.2.0, the last one by 0.1.0: a difference may be its doing",)
    assert set(upgraded.news) <= set(upgraded.banners)
    assert after({"harness_version": "0.2.0"}, {"harness_version": "0.2.0"}).news == ()
    commit = after({"harness_version": "0.1.0+g1a2b3c4d5e6f"})
    assert commit.news == ()
    assert any("0.1.0 and 0.1.0+g1a2b3c4d5e6f" in banner for banner in commit.banners)


def test_two_sides_of_other_versions_of_bench_are_compared_under_a_banner() -> None:
    runs = [factories.run(harness_version=version) for version in ("0.1.0", "0.2.0")]
    sides = [evidence(trials(CASES[0], [1e-2, 1.01e-2, 1.02e-2]), CASES[:1], run=run) for run in runs]
    assert any("other versions of bench (0.1.0 and 0.2.0)" in banner for banner in compare(*sides).banners)
    assert not any("versions of bench" in banner for banner in compare(sides[0], sides[0]).banners)


def test_rows_that_another_suite_or_filter_does_not_ask_for_fail_no_night_and_are_told_once() -> None:
    narrow = {"options": {"filters": ["attention=sdpa_flash"]}}
    first, second = after(narrow, absent=1), after(narrow, narrow, absent=1)
    for found in (first, second):
        (gone,) = [verdict for verdict in found.verdicts if verdict.word is Word.MISSING]
        assert (gone.counts, answer(found).exit_code) == (False, 0)
        assert "not asked for it" in gone.reason
    assert (len(first.news), second.news) == (1, ())
    assert "1 row of the last night was not asked for" in first.news[0]


def test_one_invalid_row_is_told_once_and_half_of_them_cannot_be_judged_night_after_night() -> None:
    one, two = ((Status.INVALID,) * n + (Status.OK,) * (3 - n) for n in (1, 2))
    first, second = after({}, status=one), after({}, {}, status=one)
    assert [answer(found).exit_code for found in (first, second)] == [0, 0]
    assert "1 row is invalid" in answer(second).why
    assert ("1 row that ran on the night before is invalid" in first.news[0], second.news) == (True, ())
    for found in (after({}, status=two), after({}, {}, status=two)):
        told = answer(found)
        assert (told.exit_code, "2 of 3 rows are invalid" in told.why) == (3, True)


def again(found: Comparison, level: float) -> Comparison:
    """With every time measured again: the last good version at that level, today's at 1.1."""
    rng = random.Random(9)
    looked = {}
    for verdict in found.verdicts:
        if verdict.screening == "suspect":
            of = verdict.series.case
            sides = [evidence(trials(of, noisy(rng, 1e-2 * factor, 0.003, 8)), [of]) for factor in (level, 1.1)]
            looked[verdict.series.key] = decided(verdict, compare(*sides, chosen=True).verdicts, "run", "the version of then")
    return _merged(found, looked)


def test_times_that_are_slower_in_the_last_good_version_too_are_told_on_the_first_morning_as_the_machines() -> None:
    moved = again(after({}, level=1.1), level=1.1)
    assert (answer(moved).exit_code, len(moved.news)) == (0, 1)
    assert "3 numbers are 1.10× the nights before, and the same in the last good version" in moved.news[0]
    assert again(after({}, {}, level=1.1), level=1.1).news == ()
    blamed = again(after({}, level=1.1), level=1.0)
    assert (answer(blamed).exit_code, blamed.news) == (1, ())


def test_one_time_of_three_that_was_slow_for_a_night_is_chance_unless_something_else_has_changed() -> None:
    found = after({}, level=1.1)
    one, *others = [verdict for verdict in found.verdicts if verdict.screening == "suspect"]
    calm = [dataclasses.replace(other, screening="clear") for other in others]
    rest = [verdict for verdict in found.verdicts if verdict.screening != "suspect"]
    found = dataclasses.replace(found, verdicts=(one, *calm, *rest))
    assert again(found, level=1.1).news == ()
    fact = Difference(False, "driver", ("580",), ("581",))
    (news,) = again(dataclasses.replace(found, environment=(fact,)), level=1.1).news
    assert news.endswith("the machine or driver 580 → 581")


def test_a_run_without_a_version_is_held_against_none() -> None:
    assert after({"harness_version": ""}).news == ()
