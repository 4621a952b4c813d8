"""The nightly screen: how often it suspects what is unchanged, what it sees, and that outliers of the past do not blind it."""

from __future__ import annotations

import random

import pytest

from bench.judge.screen import Sight, screen
from tests.judge.sides import noisy

NIGHTS = 600


def flagged(factor: float, *, spikes: float = 0.0, spread: float = 0.01, seed: int = 1) -> float:
    """Share of nights that are suspect after twenty that were alike but for rare spikes."""
    rng = random.Random(seed)
    found = 0
    for _ in range(NIGHTS):
        past = [value * (1.5 if rng.random() < spikes else 1.0) for value in noisy(rng, 1.0, spread, 20)]
        found += screen([*past, noisy(rng, factor, spread, 1)[0]]).sight is Sight.SUSPECT
    return found / NIGHTS


@pytest.mark.parametrize(("factor", "least", "most"), [(1.0, 0.0, 0.02), (1.05, 0.90, 1.0), (1.10, 0.99, 1.0), (0.8, 0.0, 0.0)])
def test_what_is_slower_is_suspect_and_what_is_not_hardly_ever(factor: float, least: float, most: float) -> None:
    assert least <= flagged(factor) <= most


def test_spikes_in_the_past_do_not_hide_a_regression() -> None:
    assert flagged(1.10, spikes=0.05) > 0.97


def test_below_ten_points_a_series_is_learning_and_a_window_forgets_what_is_older_than_twenty() -> None:
    learning = screen([1.0] * 9 + [9.0])
    assert (learning.sight, learning.before, "point 10 of 11" in learning.words) == (Sight.LEARNING, 9, True)
    found = screen([5.0] * 30 + [1.0] * 20 + [1.05])
    assert (found.sight, found.before) == (Sight.SUSPECT, 20)
    assert found.ratio == pytest.approx(1.05)


def test_nothing_below_the_floor_is_suspect_however_steady_the_past_was() -> None:
    assert screen([1.0] * 20 + [1.019]).sight is Sight.CLEAR
    assert screen([1.0] * 20 + [1.021]).sight is Sight.SUSPECT
    assert screen([1.0] * 20 + [1.021], floor=0.05).sight is Sight.CLEAR
    with pytest.raises(ValueError):
        screen([])


def test_a_level_that_the_series_came_back_from_twice_is_clear_and_says_so() -> None:
    usual = [1.0, 1.001, 0.999] * 3
    found = screen([*usual, 1.05, *usual, 1.05, 1.0, 1.051])
    assert (found.sight, found.stays) == (Sight.CLEAR, 2)
    assert "at this level 2 times before, and came back" in found.words
    again = screen([*usual, 1.05, *usual, 1.05, 1.0, 1.10])
    assert (again.sight, again.stays, "came back" in again.words) == (Sight.SUSPECT, 0, False)
