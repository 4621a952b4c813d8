"""What the machine does between two runs is learnt from their rows, and keeps it from being taken for the code."""

from __future__ import annotations

import random

import pytest

from bench.judge.compare import compare
from bench.judge.evidence import Evidence
from bench.judge.scatter import scatter
from bench.judge.verdict import Word
from tests import factories
from tests.judge.sides import evidence, noisy, trials

CASES = [factories.case("eager", seq_len=128 + place) for place in range(300)]


def one_run(rng: random.Random, between: float, slow: int = 0) -> Evidence:
    """Rows of which each has moved by `between`, the first `slow` of them by 30 % more."""
    rows = []
    for place, case in enumerate(CASES):
        level = noisy(rng, 1.3e-2 if place < slow else 1e-2, between, 1)[0]
        rows += trials(case, noisy(rng, level, 0.003, 5))
    return evidence(rows, CASES)


@pytest.mark.parametrize("between", [0.0, 0.005, 0.01, 0.02, 0.05])
def test_runs_measured_apart_give_few_false_alarms_however_far_the_machine_moves(between: float) -> None:
    rng = random.Random(1)
    found = [compare(one_run(rng, between), one_run(rng, between)) for _ in range(4)]
    alarms = sum(verdict.word in (Word.WORSE, Word.BETTER) for comparison in found for verdict in comparison.verdicts)
    assert alarms <= 0.008 * 4 * len(CASES)


def test_rows_that_really_changed_are_found_all_the_same_and_do_not_count_as_scatter() -> None:
    rng = random.Random(2)
    found = compare(one_run(rng, 0.01), one_run(rng, 0.01, slow=30))
    worse = [verdict for verdict in found.verdicts if verdict.word is Word.WORSE]
    assert len(worse) in (30, 31)
    assert worse[0].threshold is not None
    assert worse[0].threshold.source == "how far the rows of these runs scatter"
    assert 0.03 < worse[0].threshold.relative < 0.07


def test_what_all_rows_share_is_no_scatter_and_few_rows_cannot_tell() -> None:
    assert scatter([(0.2, 0.001)] * 30) == 0.0
    assert scatter([(0.2, 0.001), (0.1, 0.001)] * 9) is None
    rng = random.Random(3)
    assert scatter([(rng.gauss(0.1, 0.02), 0.001) for _ in range(2000)]) == pytest.approx(0.02, rel=0.08)
    assert scatter([(rng.gauss(0, 0.02), 0.02) for _ in range(2000)]) == pytest.approx(0.0, abs=0.008)
