"""On which side of the culprit a candidate lies: by its interval beside the good version, by what it became, or not to be told."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest

from bench.judge.bisect import side_of
from bench.judge.compare import STATUS
from bench.records import Result, Status, Trial
from bench.run.bisecting import Side
from tests import factories
from tests.judge.sides import noisy

ARMS = ("good", "asked", "bad")


def rows(arm: str, times: Sequence[float], status: Status = Status.OK) -> list[Result]:
    made = []
    for index, time_s in enumerate(times):
        row = factories.result("run", time_s=time_s, status=status, peak=time_s * 1e9)
        made.append(dataclasses.replace(row, trial=Trial(row.case, index, 0, index, arm, index)))
    return made


def looked(level: float, *, change: float = 1.1, spread: float = 0.005, n: int = 6, metric: str = "time_s") -> Side:
    rng = random.Random(f"{level} {change}")
    apart = rows("good", noisy(rng, 1e-2, spread, n)) + rows("bad", noisy(rng, 1e-2 * change, spread, n))
    beside = rows("good", noisy(rng, 1e-2, spread, n)) + rows("asked", noisy(rng, 1e-2 * level, spread, n))
    return side_of(apart, beside, metric, ARMS)[0]


@pytest.mark.parametrize("change", [1.1, 1.5, 0.9, 0.5])
def test_a_candidate_as_good_as_the_good_one_is_good_and_one_as_bad_is_bad_whichever_way_it_went(change: float) -> None:
    assert looked(1.0, change=change) is Side.GOOD
    assert looked(change, change=change) is Side.BAD


def test_half_way_between_and_among_wild_processes_it_cannot_be_told() -> None:
    assert looked(1.1**0.5) is Side.UNKNOWN
    assert looked(1.1, spread=0.2) is Side.UNKNOWN
    assert looked(1.1, n=2) is Side.UNKNOWN


def test_what_never_varies_is_told_exactly() -> None:
    for level, side in ((1.0, Side.GOOD), (2.0, Side.BAD)):
        apart, beside = rows("good", [1.0] * 3) + rows("bad", [2.0] * 3), rows("good", [1.0] * 3) + rows("asked", [level] * 3)
        assert side_of(apart, beside, "peak_bytes", ARMS)[0] is side


def test_a_candidate_that_does_not_run_says_so_and_is_neither() -> None:
    apart = rows("good", [1e-2] * 3) + rows("bad", [2e-2] * 3)
    side, words = side_of(apart, rows("good", [1e-2]) + rows("asked", [1.0], Status.CRASHED), "time_s", ARMS)
    assert (side, words) == (Side.UNKNOWN, "it is crashed: because it is crashed")


def test_where_something_stopped_running_a_candidate_is_bad_if_it_ends_alike() -> None:
    apart = rows("good", [1e-2]) + rows("bad", [1.0], Status.OOM)
    for status, side in ((Status.OK, Side.GOOD), (Status.OOM, Side.BAD), (Status.FAILED, Side.UNKNOWN)):
        assert side_of(apart, rows("good", [1e-2]) + rows("asked", [1.0], status), STATUS, ARMS)[0] is side
