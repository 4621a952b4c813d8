"""Steps are found where they are, dated to the night, told from spikes, drift and noise; and an unchanged series has none."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from bench.judge.changepoints import change_points, potts
from tests.judge.sides import noisy

NIGHTS = 30


def levels(rng: random.Random, centres: Sequence[float], spread: float = 0.01) -> list[float]:
    return [noisy(rng, centre, spread, 1)[0] for centre in centres]


def stepped(rng: random.Random, factor: float, after: int) -> list[float]:
    return levels(rng, [1.0] * NIGHTS + [factor] * after)


@pytest.mark.parametrize(("factor", "after", "least"), [(1.10, 1, 90), (1.05, 2, 90), (0.95, 2, 90), (1.03, 5, 85), (1.02, 12, 75)])
def test_a_step_is_found_within_two_nights_of_where_it_is(factor: float, after: int, least: int) -> None:
    rng = random.Random(1)
    found = 0
    for _ in range(100):
        changes = change_points(stepped(rng, factor, after))
        found += any(abs(change.index - NIGHTS) <= 2 and (change.ratio > 1) == (factor > 1) for change in changes)
    assert found >= least


def test_series_without_a_step_have_hardly_any_and_firm_ones_hardly_ever() -> None:
    rng = random.Random(2)
    found = [change for _ in range(200) for change in change_points(noisy(rng, 1.0, 0.01, 60))]
    assert len(found) <= 8
    assert sum(change.firm for change in found) <= 2


def test_a_step_and_its_repair_are_two_and_their_ratios_are_inverse() -> None:
    rng = random.Random(3)
    changes = change_points(levels(rng, [1.0] * 20 + [1.1] * 20 + [1.0] * 20))
    first, second = (change for change in changes if change.firm)
    assert (first.index, second.index) == (20, 40)
    assert first.ratio == pytest.approx(1.1, rel=0.02)
    assert second.ratio == pytest.approx(1 / 1.1, rel=0.02)


def test_one_spike_is_no_step_and_hides_none() -> None:
    rng = random.Random(4)
    spiky = levels(rng, [1.0] * 20 + [1.5] + [1.0] * 19)
    assert change_points(spiky) == ()
    stepped_too = levels(rng, [1.0] * 20 + [1.5] + [1.0] * 19 + [1.1] * 20)
    assert [change.index for change in change_points(stepped_too)] == [40]


def test_a_wider_spread_and_two_modes_in_turn_are_no_step() -> None:
    rng = random.Random(5)
    alarms = 0
    for _ in range(50):
        wider = levels(rng, [1.0] * 30, 0.005) + levels(rng, [1.0] * 30, 0.03)
        modes = levels(rng, [rng.choice((1.0, 1.05)) for _ in range(60)])
        alarms += sum(change.firm and not change.provisional for series in (wider, modes) for change in change_points(series))
    assert alarms <= 4


def test_a_slow_drift_is_seen_as_a_change_of_level() -> None:
    rng = random.Random(6)
    changes = change_points(levels(rng, [1.003**night for night in range(60)], 0.005))
    assert changes
    assert math.prod(change.ratio for change in changes) > 1.08


def test_a_step_in_the_last_nights_is_provisional_until_five_have_followed() -> None:
    rng = random.Random(7)
    series = stepped(rng, 1.1, 8)
    assert [change_points(series[: NIGHTS + after])[0].provisional for after in (1, 4, 5, 8)] == [True, True, False, False]


def test_numbers_that_do_not_vary_have_steps_of_any_size_above_the_floor_and_no_division_by_zero() -> None:
    assert change_points([5.0] * 30) == ()
    (change,) = change_points([5.0] * 20 + [5.5] * 20)
    assert (change.index, change.p, change.firm) == (20, 0.0, True)
    assert change_points([5.0] * 20 + [5.5] * 20, floor=0.2) == ()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_handful_of_points_has_no_step(count: int) -> None:
    assert change_points([1.0, 2.0, 3.0][:count]) == ()


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_what_has_no_logarithm_is_refused(bad: float) -> None:
    with pytest.raises(ValueError):
        change_points([1.0, bad, 1.0])


def test_the_scale_of_a_series_does_not_matter() -> None:
    series = stepped(random.Random(8), 1.05, 20)
    small = change_points([value * 1e-6 for value in series])
    assert [change.index for change in small] == [change.index for change in change_points(series)]


def test_the_potts_fit_is_the_best_of_all_fits() -> None:
    """Against all partitions of ten points, with the same price."""
    rng = random.Random(9)
    values = [rng.gauss(0, 1) + (3 if place >= 5 else 0) for place in range(10)]
    neighbours = sorted(abs(b - a) for a, b in itertools.pairwise(values))
    price = 2 * math.log(10) * neighbours[4] * 1.4826 / 2

    def cost(boundaries: Sequence[int]) -> float:
        edges = [0, *boundaries, 10]
        total = price * len(boundaries)
        for start, end in itertools.pairwise(edges):
            part = sorted(values[start:end])
            total += sum(abs(value - part[len(part) // 2]) for value in part)
        return total

    every = [subset for size in range(10) for subset in itertools.combinations(range(1, 10), size)]
    assert cost(potts(values)) == pytest.approx(min(map(cost, every)))


def test_four_times_the_points_take_no_more_than_forty_times_as_long() -> None:
    """The second fit is quadratic, and nothing is cubic."""
    import time

    rng = random.Random(10)
    long, short = noisy(rng, 1.0, 0.01, 200), noisy(rng, 1.0, 0.01, 50)

    def cpu_s(series: Sequence[float]) -> float:
        began = time.process_time()
        for _ in range(5):
            change_points(series)
        return time.process_time() - began

    cpu_s(short)
    assert min(cpu_s(long) for _ in range(3)) < 40 * min(cpu_s(short) for _ in range(3))
