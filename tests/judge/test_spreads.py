"""Spreads of equal things: what was put between processes and between runs comes out again, over all series together."""

from __future__ import annotations

import math
import random

import pytest

from bench.judge.evidence import Evidence
from bench.judge.spreads import pooled_between, spreads
from tests import factories
from tests.judge.sides import evidence, noisy, trials

CASES = [factories.case("eager", seq_len=128 + place) for place in range(60)]


def equal_runs(count: int, *, of_processes: float, of_runs: float) -> list[Evidence]:
    rng = random.Random(3)
    return [
        evidence(
            [row for case in CASES for row in trials(case, noisy(rng, math.exp(rng.gauss(-7, of_runs)), of_processes, 8))],
            CASES,
            run=factories.run(id=f"run-{number}"),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("of_runs", [0.0, 0.01])
def test_both_spreads_come_out_as_they_were_put_in(of_runs: float) -> None:
    found = spreads(equal_runs(4, of_processes=0.005, of_runs=of_runs))
    assert {(one.processes, one.runs) for one in found} == {(32, 4)}
    assert sum(one.within for one in found) / len(found) == pytest.approx(0.005, rel=0.1)
    assert pooled_between(found) == pytest.approx(of_runs, rel=0.15, abs=0.001)


def test_one_run_tells_nothing_of_runs_and_one_process_nothing_of_processes() -> None:
    (one,) = equal_runs(1, of_processes=0.005, of_runs=0.0)
    found = spreads([one])
    assert (found[0].between, pooled_between(found)) == (None, None)
    assert spreads([evidence(trials(CASES[0], [1.0]), CASES[:1])]) == ()


def test_two_gpus_are_two_series() -> None:
    rows = [row for gpu, time_s in (("GPU-a", 1.0), ("GPU-b", 1.1)) for row in trials(CASES[0], [time_s, 1.001 * time_s], gpu=gpu)]
    assert [one.within < 0.001 for one in spreads([evidence(rows, CASES[:1])])] == [True, True]
