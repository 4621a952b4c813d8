"""Exponents come with an interval that is honest about few points."""

from __future__ import annotations

import random

import pytest

from bench.judge.growth import growth
from bench.judge.student import critical, two_sided_p
from tests.judge.closed_form import student_t_cdf, student_t_quantile

SIZES = [512.0, 1024.0, 2048.0, 4096.0, 8192.0]


@pytest.mark.parametrize(
    ("degrees", "table"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)]
)
def test_quantiles_are_those_of_the_printed_tables(degrees: int, table: float) -> None:
    assert student_t_quantile(0.975, degrees) == pytest.approx(table, abs=5e-4)
    assert critical(0.95, degrees) == pytest.approx(table, abs=5e-4)


def test_a_quantile_is_the_inverse_of_the_distribution() -> None:
    for degrees in range(1, 40):
        assert student_t_cdf(student_t_quantile(0.995, degrees), degrees) == pytest.approx(0.995, abs=1e-10)
        assert student_t_cdf(0.0, degrees) == pytest.approx(0.5)
        assert 1 - two_sided_p(critical(0.99, degrees), degrees) / 2 == pytest.approx(0.995, abs=1e-10)
        assert 1 - two_sided_p(0.0, degrees) / 2 == pytest.approx(0.5)


def test_an_exact_power_law_has_an_interval_of_no_width() -> None:
    found = growth(SIZES, [3.0 * size**2 for size in SIZES])
    assert found is not None
    assert found.exponent == pytest.approx(2.0)
    assert found.half_width < 1e-6
    assert found.sizes == 5


def test_two_sizes_have_no_exponent() -> None:
    assert growth(SIZES[:2], [1.0, 2.0]) is None


def test_three_noisy_sizes_have_a_wide_interval() -> None:
    found = growth(SIZES[:3], [1.0, 2.2, 4.0])
    assert found is not None
    assert found.half_width > 0.5


def test_the_interval_holds_the_true_exponent_in_about_95_of_100_fits() -> None:
    dice = random.Random(3)
    held = 0
    for _ in range(2000):
        found = growth(SIZES, [size**1.5 * dice.lognormvariate(0.0, 0.05) for size in SIZES])
        assert found is not None
        held += abs(found.exponent - 1.5) <= found.half_width
    assert 0.93 < held / 2000 < 0.97
