"""Histories and drifts count from the same difference on as comparisons and nights: what one finds, the other does not deny."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli.verdicts import as_text
from bench.judge.answer import FailOn, answer
from bench.judge.compare import Comparison
from bench.judge.drift import drifted
from bench.judge.history import History, histories
from bench.judge.points import Level, Levels, load_levels
from bench.judge.regress import regress
from bench.judge.screen import Sight
from bench.judge.verdict import Series, Word
from bench.store import Store
from tests import factories
from tests.judge.sides import evidence, trials

MIB = 2**20
CASE = factories.case()
NIGHTS = 30
RUNS = [
    factories.run(id=f"night-{place:02}", started_at=f"2026-01-{place + 1:02}T03:00:00+00:00", reason="nightly")
    for place in range(NIGHTS)
]
Night = Sequence[float]


def levels(metric: str, nights: Sequence[Night]) -> Levels:
    """As `load_levels` reads nights of which each has these processes."""
    by_run = {
        run.id: Level(sorted(night)[len(night) // 2], len(night), frozenset(), len(night) > 1 and len(set(night)) == 1)
        for run, night in zip(RUNS, nights, strict=False)
    }
    series = Series(CASE, CASE.key, metric, "hard", 1, "-")
    return Levels(tuple(RUNS[: len(nights)]), {series.key: (series, by_run)}, {})


def history(metric: str, nights: Sequence[Night]) -> History:
    read = levels(metric, nights)
    (found,) = histories(read, list(read.by_series))
    return found


def judged(nights: Sequence[Night], metric: str) -> Comparison:
    """The last of these nights as `bench regress` judges it; every time is the same."""
    before, last = [
        evidence(
            [
                row
                for run, night in some
                for row in trials(CASE, [1e-3] * len(night), run_id=run.id, **dict[str, Any]({metric: night}))
            ],
            [CASE],
        )
        for some in (list(zip(RUNS, nights, strict=False))[:-1], [(RUNS[len(nights) - 1], nights[-1])])
    ]
    return regress(replace(before, runs=tuple(RUNS[: len(nights) - 1])), replace(last, runs=(RUNS[len(nights) - 1],)))


def night_says(metric: str, nights: Sequence[Night]) -> Word:
    (verdict,) = [verdict for verdict in judged(nights, metric).verdicts if verdict.series.metric == metric]
    return verdict.word


@pytest.mark.parametrize(
    ("metric", "usual", "later", "told"),
    [
        ("peak_bytes", 64.5 * 1024, 64.5 * 1024 + MIB, True),  # a tiny shape
        ("peak_bytes", 100 * MIB, 110 * MIB, True),
        ("peak_bytes", 1000 * MIB, 1010 * MIB, True),  # by a share that would be noise in a time
        ("peak_bytes", 100 * MIB, 100.05 * MIB, False),
        ("device_used_bytes", 4 * MIB, 6 * MIB, True),
        ("device_used_bytes", 1000 * MIB, 1010 * MIB, False),
        ("weight_bytes", 100 * MIB, 100 * MIB + 2, True),
        ("output_error", 1.0e-3, 1.2e-3, False),
        ("output_error", 1.0e-3, 1.4e-3, True),
        ("compile_cold_s", 4.0, 5.5, False),
        ("compile_cold_s", 4.0, 7.0, True),
    ],
)
def test_where_processes_repeat_a_history_tells_a_step_where_a_night_calls_it_worse(
    metric: str, usual: float, later: float, told: bool
) -> None:
    nights = [[usual] * 3] * 12 + [[later] * 3]
    assert (night_says(metric, nights) is Word.WORSE) == told
    found = history(metric, nights)
    assert found.screening is not None
    assert (found.screening.sight is Sight.SUSPECT) == told
    grown = history(metric, [*nights, *[[later] * 3] * 5])
    assert [(step.change.index, step.worse) for step in grown.steps] == ([(12, True)] if told else [])


def test_where_processes_vary_both_take_the_amount_that_is_for_noise() -> None:
    rng = random.Random(1)
    nights = [[place * MIB + rng.randrange(MIB) for _ in range(3)] for place in (*[100] * 12, *[108] * 6)]
    assert night_says("peak_bytes", nights[:13]) is Word.SAME
    found = history("peak_bytes", nights)
    assert found.steps == ()
    assert found.screening is not None
    assert found.screening.sight is Sight.CLEAR
    # Nor does one night that varies make the others do so: only the newest has to repeat to be a suspect.
    mixed = [[100.0 * MIB] * 3] * 12 + [[110 * MIB, 111 * MIB, 110 * MIB]]
    assert night_says("peak_bytes", mixed) is Word.SAME
    screening = history("peak_bytes", mixed).screening
    assert screening is not None
    assert screening.sight is Sight.CLEAR
    assert history("peak_bytes", [*mixed, *[[110.0 * MIB] * 3] * 6]).steps[0].change.index == 12


def test_a_peak_that_creeps_by_less_than_noise_would_be_allowed_has_drifted() -> None:
    creeping = [[(100 + place * 0.4) * MIB] * 3 for place in range(NIGHTS)]
    ids = {RUNS[-1].id}
    (found,) = drifted(levels("peak_bytes", creeping), ids, new=False)
    assert found.ratio > 1.05
    assert drifted(levels("peak_bytes", [[night[0], night[0] + 1] for night in creeping]), ids, new=False) == []


def test_a_level_as_the_database_has_it_says_whether_its_processes_repeat(tmp_path: Path) -> None:
    lone, varying = factories.case(seq_len=64), factories.case(seq_len=96)
    with Store.open(tmp_path / "nights.db") as store:
        run = factories.run()
        store.add_run(run)
        for index, time_s in enumerate([1e-3, 1.1e-3, 1.2e-3]):
            store.add_result(factories.result(run.id, CASE, index=index, time_s=time_s, peak=100))
            store.add_result(factories.result(run.id, varying, index=index, time_s=1e-3, peak=100 + index))
        store.add_result(factories.result(run.id, lone, peak=7))
        read = load_levels(store, [run], ["time_s", "peak_bytes"])
    repeats = {(series.case_key, series.metric): by_run[run.id].repeats for series, by_run in read.by_series.values()}
    assert repeats == {
        (CASE.key, "time_s"): False,
        (CASE.key, "peak_bytes"): True,
        (varying.key, "time_s"): True,
        (varying.key, "peak_bytes"): False,
        (lone.key, "time_s"): False,
        (lone.key, "peak_bytes"): False,
    }


@pytest.mark.parametrize(("count", "word"), [(12, "no suspect"), (4, "learning")])
def test_what_a_screen_has_nothing_to_tell_of_has_a_word_of_its_own_in_the_headline_and_in_its_row(count: int, word: str) -> None:
    found = judged([[64 * 1024.0] * 3] * count, "peak_bytes")
    told = answer(found, FailOn.WORSE)
    assert told.headline == f"1 same, 1 {word}"
    lines = as_text(found, told, everything=True).splitlines()
    (time_row,) = [line for line in lines if " time_s " in line]
    assert time_row.startswith(f"{word} ")
    (peak_row,) = [line for line in lines if " peak_bytes " in line]
    assert peak_row.startswith("same ")
    assert " ±100 % " in peak_row, "and no ±1e+02 %"
