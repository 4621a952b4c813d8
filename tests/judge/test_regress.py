"""The nightly judgement: a known rate of false alarms, two nights to confirm, and the machine is not the code."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest

from bench.judge.answer import FailOn, answer
from bench.judge.compare import Comparison
from bench.judge.evidence import Evidence
from bench.judge.regress import regress
from bench.judge.verdict import Verdict, Word
from bench.records import Case, Run, RunState, Status
from tests import factories
from tests.judge.sides import evidence, noisy, trials

EAGER = factories.case()


def night(number: int, **changes: Any) -> Run:
    return factories.run(started_at=f"2026-03-{number + 1:02}T03:00:00+00:00", **changes)


def judged(
    levels: Sequence[float], *, seed: int = 1, cases: Sequence[Case] = (EAGER,), last: dict[str, Any] | None = None
) -> Comparison:
    """Nights at these levels, the last one tonight; `last` changes the rows of tonight."""
    rng = random.Random(seed)
    runs, rows = [], []
    for number, level in enumerate(levels):
        run = night(number)
        runs.append(run)
        more = (last or {}) if number == len(levels) - 1 else {}
        for case in cases:
            rows += trials(case, noisy(rng, 1e-2 * level, 0.005, 5), run_id=run.id, **{"peak_bytes": 1e8, **more})
    return split(runs, rows, cases, [more["environment"]] if "environment" in more else [])


def split(runs: Sequence[Run], rows: Sequence[Any], cases: Sequence[Case], more: Sequence[Any] = ()) -> Comparison:
    known = [factories.environment(), *more]
    before = evidence([row for row in rows if row.run_id != runs[-1].id], cases, known)
    own = evidence([row for row in rows if row.run_id == runs[-1].id], cases, [more[-1]] if more else known)
    return regress(dataclasses.replace(before, runs=tuple(runs[:-1])), dataclasses.replace(own, runs=(runs[-1],)))


def one(found: Comparison, metric: str = "time_s") -> Verdict:
    (verdict,) = [verdict for verdict in found.verdicts if verdict.series.metric == metric]
    return verdict


def test_one_slow_night_is_a_suspect_and_two_are_worse() -> None:
    first, second = judged([1.0] * 15 + [1.1]), judged([1.0] * 15 + [1.1, 1.1])
    assert (one(first).word, one(first).screening, answer(first).exit_code) == (Word.AMBIGUOUS, "suspect", 0)
    assert one(first).settle
    assert answer(first, FailOn.AMBIGUOUS).exit_code == 1
    assert (one(second).word, answer(second).exit_code) == (Word.WORSE, 1)


def test_two_fast_nights_are_better_and_one_slow_then_one_fast_night_are_neither() -> None:
    assert one(judged([1.0] * 15 + [0.9, 0.9])).word is Word.BETTER
    assert one(judged([1.0] * 15 + [1.1, 0.9])).word is Word.AMBIGUOUS
    assert one(judged([1.0] * 15 + [1.1, 1.0])).screening == "clear"


def test_a_clear_night_is_not_called_the_same_and_is_no_news() -> None:
    found = judged([1.0] * 15)
    assert (one(found).word, "screen_clear" in one(found).reason) == (Word.AMBIGUOUS, True)
    assert (answer(found, FailOn.AMBIGUOUS).exit_code, answer(found).headline) == (0, "1 same, 1 no suspect")


def test_a_learning_series_fails_nothing_and_says_which_night_it_is() -> None:
    found = judged([1.0] * 2 + [2.0])
    assert (one(found).word, one(found).reason) == (Word.INSUFFICIENT, "learning: night 3 of 10")
    told = answer(found)
    assert (told.exit_code, "1 series are still learning" in told.why) == (0, True)


def test_a_regression_that_nobody_accepted_still_fails_a_week_later() -> None:
    assert one(judged([1.0] * 15 + [1.1] * 7)).word is Word.WORSE


def test_what_is_called_worse_is_a_suspect_with_a_last_good_night_though_half_the_window_is_at_its_level() -> None:
    for nights in range(2, 12):
        found = judged([1.0] * 15 + [1.06] * nights)
        if one(found).word is Word.WORSE:
            assert (nights, one(found).screening) == (nights, "suspect")
            assert one(found).good_run == found.first.runs[14].id
    assert one(judged([1.0] * 15 + [1.06] * 11)).word is Word.WORSE
    assert one(judged([1.0] * 15 + [1.06] * 12)).screening == "clear"


def test_memory_is_judged_on_the_first_night_and_yesterdays_growth_is_not_its_measure() -> None:
    assert one(judged([1.0] * 3, last={"peak_bytes": 1.5e8}), "peak_bytes").word is Word.WORSE
    runs = [night(number) for number in range(8)]
    rows = [
        row
        for number, run in enumerate(runs)
        for row in trials(EAGER, [1e-2] * 3, run_id=run.id, peak_bytes=1e8 if number < 6 else 1.5e8)
    ]
    assert one(split(runs, rows, [EAGER]), "peak_bytes").word is Word.WORSE


def test_what_ran_last_week_and_does_not_tonight_is_worse_even_if_it_did_not_yesterday_either() -> None:
    runs = [night(number) for number in range(8)]
    rows = []
    for number, run in enumerate(runs):
        rows += trials(EAGER, [1e-2] * 3, run_id=run.id, status=Status.OK if number < 6 else Status.OOM)
    verdict = one(split(runs, rows, [EAGER]), "status")
    assert (verdict.word, verdict.second.outcome) == (Word.WORSE, "3 oom")


def test_a_case_that_was_there_every_night_and_is_gone_is_missing_unless_the_run_stopped() -> None:
    other = factories.case("sdpa_flash")
    runs = [night(number) for number in range(6)]
    rows = [row for run in runs for row in trials(EAGER, [1e-2] * 3, run_id=run.id)]
    rows += [row for run in runs[:-1] for row in trials(other, [1e-2] * 3, run_id=run.id)]
    gone = one(split(runs, rows, [EAGER, other]), "status")
    assert (gone.word, gone.counts) == (Word.MISSING, True)
    runs[-1] = dataclasses.replace(runs[-1], state=RunState.BUDGET)
    assert one(split(runs, rows, [EAGER, other]), "status").counts is False


def test_a_case_whose_rows_of_tonight_somebody_excluded_is_no_alarm() -> None:
    other = factories.case("sdpa_flash")
    runs = [night(number) for number in range(6)]
    rows = [row for run in runs for row in trials(EAGER, [1e-2] * 3, run_id=run.id)]
    rows += [row for run in runs[:-1] for row in trials(other, [1e-2] * 3, run_id=run.id)]
    found = split(runs, rows, [EAGER, other])
    tonight = dataclasses.replace(found.second, set_aside={(other.key, "-"): "the machine was busy"})
    gone = one(regress(found.first, tonight), "status")
    assert (gone.word, gone.counts) == (Word.MISSING, False)
    assert gone.reason.endswith("tonight's rows of it are excluded: the machine was busy")


def test_a_case_that_is_gone_is_told_for_weeks_and_one_that_came_now_and_then_is_not_expected() -> None:
    often, seldom = factories.case("sdpa_flash"), factories.case("sdpa_math")
    runs = [night(number) for number in range(20)]
    rows = [row for run in runs for row in trials(EAGER, [1e-2] * 3, run_id=run.id)]
    rows += [row for run in runs[:6] for row in trials(often, [1e-2] * 3, run_id=run.id)]
    rows += [row for run in runs[2:12:9] for row in trials(seldom, [1e-2] * 3, run_id=run.id)]
    gone = one(split(runs, rows, [EAGER, often, seldom]), "status")
    assert (gone.series.case, gone.word, gone.counts) == (often, Word.MISSING, True)
    assert gone.reason == "it ran on 5 of 5 nights until 2026-03-06"


def test_a_new_case_has_nothing_to_be_held_against() -> None:
    runs = [night(number) for number in range(3)]
    rows = [row for run in runs for row in trials(EAGER, [1e-2] * 3, run_id=run.id)]
    rows += trials(factories.case("sdpa_flash"), [1e-2] * 3, run_id=runs[-1].id)
    assert one(split(runs, rows, [EAGER, factories.case("sdpa_flash")]), "status").word is Word.NEW


def test_another_version_of_the_workload_or_the_method_begins_anew_and_is_neither_missing_nor_the_hardware() -> None:
    newer = dataclasses.replace(EAGER, workload_version=2)
    for tonight, method, words in (
        (newer, 1, "the workload attention has version 2 now"),
        (EAGER, 2, "measured by method 1 and 2"),
    ):
        runs = [night(number) for number in range(8)]
        rows = [
            row
            for number, run in enumerate(runs)
            for row in trials(
                tonight if number >= 6 else EAGER, [1e-2] * 3, run_id=run.id, method_version=method if number >= 6 else 1
            )
        ]
        first = split(runs[:7], [row for row in rows if row.run_id != runs[7].id], [EAGER, newer])
        (verdict,) = first.verdicts
        assert (verdict.word, verdict.reason.startswith(words), answer(first).exit_code) == (Word.CHANGED, True, 3)
        second = split(runs, rows, [EAGER, newer])
        assert {verdict.screening for verdict in second.verdicts if verdict.series.metric == "time_s"} == {"learning"}
        assert (Word.MISSING in {verdict.word for verdict in second.verdicts}, answer(second).exit_code) == (False, 0)


def test_two_slow_nights_under_another_driver_are_ambiguous_and_name_it() -> None:
    newer = factories.environment(driver="581")
    runs = [night(number) for number in range(16)]
    rng = random.Random(3)
    rows = []
    for number, run in enumerate(runs):
        changes = {"environment": newer} if number >= 14 else {}
        rows += trials(EAGER, noisy(rng, 1e-2 if number < 14 else 1.1e-2, 0.005, 5), run_id=run.id, **changes)
    verdict = one(split(runs, rows, [EAGER], [newer]))
    assert (verdict.word, "driver changed" in verdict.reason) == (Word.AMBIGUOUS, True)


def test_another_gpu_needs_more_than_two_gpus_differ_by() -> None:
    slow = judged([1.0] * 15 + [1.04, 1.04], last={"gpu": "GPU-2"})
    assert one(slow).word is not Word.WORSE


def nights(rng: random.Random, case: Case, runs: Sequence[Run], spread: float, between: float) -> list[Any]:
    rows = []
    for run in runs:
        level = noisy(rng, 1e-2, between, 1)[0]
        rows += trials(case, noisy(rng, level, spread, 5), run_id=run.id)
    return rows


@pytest.mark.parametrize("between", [0.0, 0.007])
def test_of_two_thousand_unchanged_series_hardly_any_is_called_worse_or_better(between: float) -> None:
    """One per cent between processes, and up to 0.7 % between nights."""
    rng = random.Random(5)
    cases = [factories.case("eager", seq_len=128 + place) for place in range(1000)]
    runs = [night(number) for number in range(22)]
    rows = [row for case in cases for row in nights(rng, case, runs, 0.01, between)]
    whole = {run.id: [row for row in rows if row.run_id == run.id] for run in runs}
    alarms = suspects = 0
    for last in (20, 22):
        part: list[Any] = [row for run in runs[:last] for row in whole[run.id]]
        found = split(runs[:last], part, cases)
        alarms += sum(verdict.word in (Word.WORSE, Word.BETTER) for verdict in found.verdicts)
        suspects += sum(verdict.screening == "suspect" for verdict in found.verdicts)
    assert alarms <= 2
    assert suspects <= 20


def test_rows_that_are_all_worse_together_on_the_same_machine_are_one_event_and_fail_the_night() -> None:
    cases = [factories.case("eager", seq_len=128 * place) for place in (1, 2, 3, 4)]
    found = judged([1.0] * 15 + [1.2, 1.2], cases=cases)
    assert found.mass_shift is not None
    assert (found.mass_shift.moved, answer(found).exit_code) == (4, 1)


def test_without_a_night_before_everything_is_new() -> None:
    own = evidence(trials(EAGER, [1e-2] * 3), [EAGER])
    found = regress(Evidence(()), own)
    assert [verdict.word for verdict in found.verdicts] == [Word.NEW]
