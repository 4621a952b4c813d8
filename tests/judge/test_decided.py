"""A suspect that was measured again beside the last good version: what it becomes, by numbers and by how it ended."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest

from bench.judge.compare import compare
from bench.judge.confirm import suspects
from bench.judge.decided import decided
from bench.judge.evidence import TrialRow
from bench.judge.verdict import Verdict, Word
from bench.records import Status
from tests import factories
from tests.judge.sides import evidence, noisy, trials
from tests.judge.test_confirm import item, night
from tests.judge.test_regress import split

CASE = factories.case()
GOOD, NEW = factories.run(id="good"), factories.run(id="new")
MIB = 2.0**20


def rows(count: int = 3, status: Status = Status.OK, *, peak: float = 100 * MIB, time_s: float = 1e-2) -> list[TrialRow]:
    return trials(CASE, noisy(random.Random(1), time_s, 0.002, count), status=status, peak_bytes=peak)


def measured(good: Sequence[TrialRow], new: Sequence[TrialRow]) -> tuple[Verdict, ...]:
    return compare(evidence(good, [CASE], run=GOOD), evidence(new, [CASE], run=NEW), chosen=True).verdicts


def suspect_of(tonight: Sequence[TrialRow]) -> Verdict:
    """What a night with such rows after twelve usual ones is suspected of."""
    runs = [night(number, item(number)) for number in range(13)]
    nights = [[*rows()] for _ in runs[:-1]] + [list(tonight)]
    found = split(
        runs, [dataclasses.replace(row, run_id=run.id) for run, own in zip(runs, nights, strict=True) for row in own], [CASE]
    )
    (suspect,) = suspects(found)
    return suspect


@pytest.mark.parametrize(
    ("good", "new", "word", "words"),
    [
        (rows(), rows(peak=150 * MIB), Word.WORSE, "confirmed: measured again in turn with the version of May, the ranges"),
        (rows(), rows(), Word.SAME, "tonight the machine was other"),
        (rows(), rows(status=Status.OOM), Word.WORSE, "the ranges over processes are apart"),
    ],
)
def test_memory_that_grew_is_measured_again(good: list[TrialRow], new: list[TrialRow], word: Word, words: str) -> None:
    suspect = suspect_of(rows(peak=150 * MIB))
    assert (suspect.series.metric, suspect.word, suspect.good_run is not None) == ("peak_bytes", Word.WORSE, True)
    found = decided(suspect, measured(good, new), "run-1", "the version of May")
    assert found.word is word
    assert words in found.reason
    if new[0].status is Status.OK:
        assert found.confirmed_in == "run-1"
        assert "in the night itself it was 1.500× what is usual" in found.notes
    else:
        assert "there was no pair of numbers (then 3 ok, now 3 oom)" in found.notes[-1]


@pytest.mark.parametrize(
    ("good", "new", "word", "words"),
    [
        (rows(), rows(status=Status.CRASHED), Word.WORSE, "of May, it ran, and no longer does: 3 crashed"),
        (rows(), rows(), Word.AMBIGUOUS, "not confirmed: measured again in turn with the version of May it ran; in the night"),
        (rows(status=Status.OOM), rows(), Word.AMBIGUOUS, "not confirmed"),
        (
            rows(status=Status.OOM),
            rows(status=Status.OOM),
            Word.WORSE,
            "that does not run either (3 oom): it is not the code alone",
        ),
    ],
)
def test_what_no_longer_ran_is_started_again(good: list[TrialRow], new: list[TrialRow], word: Word, words: str) -> None:
    suspect = suspect_of(rows(status=Status.CRASHED))
    assert (suspect.series.metric, suspect.word) == ("status", Word.WORSE)
    found = decided(suspect, measured(good, new), "run-1", "the version of May")
    assert (found.word, found.confirmed_in) == (word, "run-1")
    assert words in found.reason


def test_a_second_look_under_conditions_that_forbid_it_leaves_the_night_as_it_was() -> None:
    suspect = suspect_of(rows(status=Status.CRASHED))
    found = decided(suspect, measured(rows(), rows(status=Status.INVALID)), "run-1", "the version of May")
    assert (found.word, found.confirmed_in) == (Word.WORSE, None)
    assert "provisional" in found.notes[-1]


def test_less_than_the_margin_is_no_sign_of_the_machine_unless_it_is_less_than_half_of_what_the_night_saw() -> None:
    suspect = suspect_of(trials(CASE, noisy(random.Random(3), 1.045e-2, 0.002, 3), peak_bytes=100 * MIB))
    rng = random.Random(4)
    for level, word, words in (
        (
            1.025,
            Word.AMBIGUOUS,
            "not confirmed: measured again in turn with the version of May it is shown to differ by less than 5",
        ),
        (1.0, Word.SAME, "tonight the machine was other"),
    ):
        sides = [trials(CASE, noisy(rng, 1e-2 * factor, 0.012, 8), peak_bytes=100 * MIB) for factor in (1.0, level)]
        found = decided(suspect, measured(*sides), "run-1", "the version of May")
        assert (found.word, words in found.reason) == (word, True)
