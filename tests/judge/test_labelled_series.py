"""Change points on labelled series that others made for such tests: what must be found, and what must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.judge.changepoints import change_points

otava = pytest.importorskip("otava_test_data", reason="otava-test-data is not installed: it holds the labelled series")
SEEDS = range(40)
NEAR = 2

Make = Callable[[int], Any]


def steps_found(make: Make) -> tuple[int, int, int]:
    """Labels that were found, labels, and firm changes that are near no label."""
    found = labels = false = 0
    for seed in SEEDS:
        series = make(seed)
        truth = series.get_change_point_indices()
        changes = change_points([float(value) for value in series.data])
        found += sum(any(abs(change.index - index) <= NEAR for change in changes) for index in truth)
        labels += len(truth)
        false += sum(change.firm and all(abs(change.index - index) > NEAR for index in truth) for change in changes)
    return found, labels, false


@pytest.mark.parametrize(
    ("make", "recall"),
    [
        (lambda seed: otava.step_function(100, 100, 110, sigma=1.0, seed=seed), 0.98),
        (lambda seed: otava.step_function(100, 100, 105, sigma=1.0, seed=seed), 0.98),
        (lambda seed: otava.step_function(100, 100, 103, sigma=1.0, seed=seed), 0.90),
        (lambda seed: otava.regression_fix(100, 100, 110, regression_duration=15, sigma=1.0, seed=seed), 0.95),
        (
            lambda seed: otava.multiple_changes(120, [100, 110, 104, 115], [30, 60, 90], sigma=1.0, seed=seed),
            0.95,
        ),
    ],
    ids=["10 %", "5 %", "3 %", "regression and fix", "three in a row"],
)
def test_steps_are_found_and_hardly_anything_else(make: Make, recall: float) -> None:
    found, labels, false = steps_found(make)
    assert found >= recall * labels
    assert false <= 0.05 * len(SEEDS)


@pytest.mark.parametrize(
    ("make", "share"),
    [
        (lambda seed: otava.constant(100, seed=seed), 0.0),
        (lambda seed: otava.noise_normal(100, 100, 1.0, seed=seed), 0.05),
        (lambda seed: otava.noise_uniform(100, 98, 102, seed=seed), 0.05),
        (lambda seed: otava.outlier(100, 100, 150, sigma=1.0, seed=seed), 0.05),
        (lambda seed: otava.banding(100, 100, 105, sigma=1.0, seed=seed), 0.10),
        (lambda seed: otava.variance_change(100, 100, 1.0, 4.0, seed=seed), 0.10),
    ],
    ids=["constant", "normal", "uniform", "one outlier", "two levels in turn", "another spread"],
)
def test_series_without_a_step_have_hardly_any(make: Make, share: float) -> None:
    firm = sum(
        any(change.firm and not change.provisional for change in change_points([float(value) for value in make(seed).data]))
        for seed in SEEDS
    )
    assert firm <= share * len(SEEDS)
