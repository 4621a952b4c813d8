"""Thirty nights with thirty revisions are thirty judged nights; a night that was not is told; what waits for its turn says since when."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest

from bench.judge.answer import answer
from bench.judge.compare import Comparison
from bench.judge.nights import is_missed, missed_nights
from bench.judge.regress import regress
from bench.judge.sides import NIGHTLY, is_night
from bench.judge.verdict import Word
from bench.records import RevisionItem, Run, RunState
from tests import factories
from tests.judge.sides import evidence, noisy, trials

CASES = [factories.case("eager", seq_len=128 * place) for place in range(1, 5)]
DAY_S = 86_400.0


def night(number: int, **changes: Any) -> Run:
    changes = {"reason": NIGHTLY, "revision": (RevisionItem("kernels", "path", commit=f"{number:040x}"),), **changes}
    month, day = divmod(number, 28)
    return factories.run(started_at=f"2026-{month + 1:02}-{day + 1:02}T03:00:00+00:00", **changes)


def judged(runs: Sequence[Run], rows: Sequence[Any], environments: Sequence[Any] = ()) -> Comparison:
    known = [factories.environment(), *environments]
    before = evidence([row for row in rows if row.run_id != runs[-1].id], CASES, known)
    mine = [row for row in rows if row.run_id == runs[-1].id]
    there = {row.environment_id for row in mine}
    own = evidence(mine, CASES, [found for found in known if found.hard_hash + found.soft_hash in there])
    return regress(dataclasses.replace(before, runs=tuple(runs[:-1])), dataclasses.replace(own, runs=(runs[-1],)))


def test_thirty_nights_with_thirty_revisions_and_a_torch_upgrade_are_thirty_judged_nights() -> None:
    rng = random.Random(11)
    newer = factories.environment(**{"package:torch": "2.14.0"})
    runs, rows, learning = [], [], 10
    for number in range(learning + 30):
        run = night(number)
        runs.append(run)
        environment = newer if number >= learning + 15 else None
        for case in CASES:
            rows += trials(case, noisy(rng, 1e-2, 0.004, 5), run_id=run.id, environment=environment, peak_bytes=1e8)
    assert len({run.revision for run in runs}) == learning + 30
    for tonight in range(learning, learning + 30):
        here = {run.id for run in runs[: tonight + 1]}
        found = judged(runs[: tonight + 1], [row for row in rows if row.run_id in here], [newer])
        times = [verdict for verdict in found.verdicts if verdict.series.metric == "time_s"]
        assert len(times) == len(CASES)
        assert {verdict.screening for verdict in times} <= {"clear", "suspect"}, f"night {tonight}"
        assert not [
            verdict for verdict in found.verdicts if verdict.word in (Word.WORSE, Word.NEW, Word.MISSING, Word.INCOMPARABLE)
        ]
        assert answer(found).exit_code == 0
        # The night of the upgrade says so, and only that one.
        assert any("environment differs" in banner for banner in found.banners) == (tonight == learning + 15)


def test_a_step_with_the_torch_upgrade_is_not_blamed_on_the_code_and_one_without_it_is() -> None:
    newer = factories.environment(**{"package:torch": "2.14.0"})
    for environment, word in ((newer, Word.AMBIGUOUS), (None, Word.WORSE)):
        rng = random.Random(5)
        runs, rows = [], []
        for number in range(16):
            runs.append(night(number))
            late = number >= 14
            rows += trials(
                CASES[0],
                noisy(rng, 1.1e-2 if late else 1e-2, 0.003, 5),
                run_id=runs[-1].id,
                environment=environment if late else None,
            )
        found = judged(runs, rows, [newer])
        (time,) = [verdict for verdict in found.verdicts if verdict.series.metric == "time_s"]
        assert (time.word, time.good_run) == (word, runs[13].id)


def test_a_night_with_a_budget_says_of_every_other_row_when_it_was_last_judged() -> None:
    rng = random.Random(3)
    runs, rows = [], []
    for number in range(12):
        runs.append(night(number, state=RunState.BUDGET))
        for place in {0, 1 + number % 3}:
            rows += trials(CASES[place], noisy(rng, 1e-2, 0.003, 5), run_id=runs[-1].id)
    found = judged(runs, rows)
    assert [(one.series.case.params["seq_len"], one.last_judged[:10]) for one in found.waiting] == [
        (256, "2026-01-10"),
        (384, "2026-01-11"),
    ]
    assert not [verdict for verdict in found.verdicts if verdict.word is Word.MISSING]
    times = {v.series.case.params["seq_len"]: v for v in found.verdicts if v.series.metric == "time_s"}
    assert {size: (verdict.last_judged or "")[:10] for size, verdict in times.items()} == {128: "2026-01-11", 512: "2026-01-09"}
    assert (times[128].screening, times[512].reason) == ("clear", "learning: night 4 of 10")
    assert answer(found).exit_code == 0


def test_a_night_of_first_turns_alone_is_no_failure_unless_it_ran_on_other_hardware() -> None:
    rng = random.Random(3)
    runs = [night(number, state=RunState.BUDGET) for number in range(2)]
    other = factories.environment()
    other = dataclasses.replace(other, hard={**other.hard, "cpu_model": "Another CPU"})
    first = trials(CASES[0], noisy(rng, 1e-2, 0.003, 5), run_id=runs[0].id)
    for environment, code in ((None, 0), (other, 3)):
        second = trials(CASES[1], noisy(rng, 1e-2, 0.003, 5), run_id=runs[1].id, environment=environment)
        assert answer(judged(runs, [*first, *second], [other])).exit_code == code


def test_a_night_is_a_whole_run_or_one_that_takes_turns_and_nothing_that_looked_again() -> None:
    for changes in ({}, {"reason": "manual"}, {"state": RunState.BUDGET}):
        assert is_night(night(1, **changes))
    for changes in (
        {"reason": "manual", "state": RunState.BUDGET},
        {"state": RunState.INTERRUPTED},
        {"reason": "confirm"},
        {"reason": "bisect"},
        {"reason": "rerun"},
    ):
        assert not is_night(night(1, **changes))


@pytest.mark.parametrize(
    ("present", "words"),
    [
        ([0, 1, 2, 3], []),
        ([0, 1, 3], ["1 night did not run since 2026-01-02T03:00: 2026-01-03"]),
        ([0, 3], ["2 nights did not run since 2026-01-01T03:00: 2026-01-02, 2026-01-03"]),
    ],
)
def test_a_night_that_did_not_run_is_told_by_the_next_one(present: list[int], words: list[str]) -> None:
    runs = [night(number) for number in present]
    said = missed_nights([*runs, night(3, suite="another")], runs[-1], every_s=DAY_S)
    assert said == words
    assert all(map(is_missed, said))


def test_a_night_that_broke_off_is_told_once_and_not_after_a_whole_one() -> None:
    runs = [night(0), night(1, state=RunState.INTERRUPTED), night(2), night(3)]
    assert ["did not come to its end" in words for words in missed_nights(runs[:3], runs[2], every_s=DAY_S)] == [True]
    assert missed_nights(runs, runs[3], every_s=DAY_S) == []
    assert missed_nights(runs[:2], night(9, reason="manual"), every_s=DAY_S) == []
