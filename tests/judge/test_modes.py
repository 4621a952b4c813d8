"""A level that a series has been at and come back from is known; staying there longer than chance, or another level, is news."""

from __future__ import annotations

import random

import pytest

from bench.judge.modes import stays_before
from bench.judge.regress import two_sided
from bench.judge.resampled import nightly
from bench.judge.screen import FLOOR, Sight
from bench.stats import median
from tests import factories
from tests.judge.labelled import FAST_MHZ, SLOW_MHZ, in_two_states
from tests.judge.sides import evidence, noisy, trials

FAST, SLOW = 1.0, 1.05


def stays(*nights: float, centre: float = FAST) -> int:
    return stays_before(nights, centre=centre, limit=1.02, within=0.02)


def test_a_second_return_to_a_level_makes_it_known_and_a_first_one_does_not() -> None:
    usual = [FAST] * 8
    assert stays(*usual, SLOW) == 0
    assert stays(*usual, SLOW, *usual, SLOW) == 0, "a change and its repair, and the change once more"
    assert stays(*usual, SLOW, FAST, SLOW, *usual, SLOW) == 2
    assert stays(*usual, SLOW, FAST, SLOW, FAST, SLOW, *usual, SLOW) == 3


def test_another_level_than_the_known_one_and_usual_nights_are_no_stays() -> None:
    usual = [FAST] * 8
    assert stays(*usual, SLOW, FAST, SLOW, *usual, 1.10) == 0
    assert stays(*usual, 1.015, FAST, 1.015, *usual, 1.025) == 0, "within the limit, though nearer than the floor"
    assert stays(*usual, 0.96, FAST, 0.96, *usual, 0.955) == 2, "to the other side it is the same"
    assert stays(*usual, 0.96, FAST, SLOW, *usual, SLOW) == 0


def test_a_stay_that_is_longer_than_chance_makes_it_is_a_suspect() -> None:
    before = [FAST, FAST, SLOW, FAST, FAST, FAST, SLOW, FAST, FAST, FAST, FAST, FAST]
    assert [stays(*before, *[SLOW] * nights) for nights in (1, 2, 3, 4)] == [2, 2, 0, 0]


@pytest.mark.parametrize("slow_share", [0.1, 0.2, 0.3])
def test_a_change_that_looks_like_the_slow_mode_is_a_suspect_within_four_nights(slow_share: float) -> None:
    seen = 0
    for seed in range(100):
        rng = random.Random(seed)
        nights = [median(in_two_states(rng, slow_share)) for _ in range(20)]
        for _ in range(4):
            nights.append(median(in_two_states(rng, slow_share, FAST_MHZ / SLOW_MHZ)))
            if two_sided(nights, FLOOR).sight is Sight.SUSPECT:
                seen += 1
                break
    assert seen >= 95


@pytest.mark.parametrize(("slow_share", "ratio"), [(0.1, 1.05), (0.3, 1.10), (0.5, 1.05), (0.5, 1.128)])
def test_series_with_two_modes_give_one_alarm_in_a_thousand_nights_at_most(slow_share: float, ratio: float) -> None:
    rng = random.Random(17)
    cases = [factories.case(seq_len=128 + place) for place in range(20)]
    rows = []
    for case in cases:
        times = [time_s * (ratio if rng.random() < slow_share else 1.0) for time_s in noisy(rng, 1e-2, 0.004, 48)]
        rows += trials(case, times)
    drawn = nightly([evidence(rows, cases)], nights=4_000, seed=1)
    assert drawn.per_thousand <= 1.0
    assert drawn.suspects <= 0.05 * drawn.nights, "or every night measures all of them again"
