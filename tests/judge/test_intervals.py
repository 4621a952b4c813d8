"""Student's distribution, intervals, effect size and false discoveries against published and independent numbers."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from bench.judge.intervals import adjusted, cliffs_delta, log_ratio, pooled_sd
from bench.judge.student import critical, two_sided_p
from tests.judge.closed_form import student_t_cdf, student_t_quantile
from tests.judge.sides import noisy


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 8, 30])
def test_student_agrees_with_the_closed_form_at_whole_degrees(degrees: int) -> None:
    assert critical(0.99, degrees) == pytest.approx(student_t_quantile(0.995, degrees), rel=1e-8)
    for t in (0.1, 1.0, 2.5, 6.0):
        assert two_sided_p(t, degrees) == pytest.approx(2 * (1 - student_t_cdf(t, degrees)), rel=1e-9)
        assert two_sided_p(-t, degrees) == two_sided_p(t, degrees)


@pytest.mark.parametrize(("degrees", "t"), [(4, 4.604), (10, 3.169), (1e9, 2.576)])
def test_student_agrees_with_the_printed_tables(degrees: float, t: float) -> None:
    assert critical(0.99, degrees) == pytest.approx(t, abs=6e-4)


def test_student_in_between_lies_in_between_and_the_far_tail_is_no_rounding_error() -> None:
    assert critical(0.99, 4) < critical(0.99, 3.5) < critical(0.99, 3)
    # With one degree of freedom the tail is 2 / (pi t).
    assert two_sided_p(1e9, 1) == pytest.approx(2 / (math.pi * 1e9), rel=1e-9)


def test_the_interval_is_welchs_and_turns_over_when_the_sides_are_exchanged() -> None:
    first, second = [1.00, 1.02, 0.99, 1.01, 1.03], [1.10, 1.13, 1.08]
    found, back = log_ratio([(first, second)]), log_ratio([(second, first)])
    logs = [[math.log(x) for x in side] for side in (first, second)]
    means = [sum(side) / len(side) for side in logs]
    parts = [sum((x - middle) ** 2 for x in side) / (len(side) - 1) / len(side) for side, middle in zip(logs, means, strict=True)]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 2)
    assert found.estimate == pytest.approx(means[1] - means[0])
    assert found.error == pytest.approx(math.sqrt(sum(parts)))
    assert found.degrees == pytest.approx(degrees)
    assert back.interval(0.99).low == pytest.approx(1 / found.interval(0.99).high)


def test_the_99_percent_interval_holds_the_truth_99_times_in_100() -> None:
    rng = random.Random(1)
    missed = 0
    for _ in range(4000):
        low, high = log_ratio([(noisy(rng, 1.0, 0.01, 5), noisy(rng, 1.05, 0.02, 5))]).bounds(0.99)
        missed += not low <= math.log(1.05) <= high
    assert 12 <= missed <= 60


def test_a_difference_between_gpus_is_no_difference_between_the_sides() -> None:
    rng = random.Random(2)
    slow, fast = noisy(rng, 1.05, 0.001, 5), noisy(rng, 1.0, 0.001, 5)
    blocks = [(slow, noisy(rng, 1.05, 0.001, 5)), (fast, noisy(rng, 1.0, 0.001, 5))]
    within = log_ratio(blocks)
    pooled = log_ratio([(slow + fast, blocks[0][1] + blocks[1][1])])
    assert abs(within.estimate) < 0.002
    assert within.half_width(0.99) < pooled.half_width(0.99) / 10


def test_numbers_that_do_not_vary_have_an_interval_without_width_and_no_division_by_zero() -> None:
    equal, apart = log_ratio([([2.0] * 3, [2.0] * 3)]), log_ratio([([2.0] * 3, [3.0] * 3)])
    assert (equal.degrees, equal.p, apart.p) == (None, 1.0, 0.0)
    assert apart.bounds(0.99) == pytest.approx((math.log(1.5), math.log(1.5)))


def test_too_few_processes_are_refused() -> None:
    with pytest.raises(ValueError):
        log_ratio([])
    with pytest.raises(ValueError):
        log_ratio([([1.0], [1.0, 2.0])])


def test_cliffs_delta_counts_pairs() -> None:
    rng = random.Random(3)
    a, b = [rng.randrange(6) for _ in range(7)], [rng.randrange(6) for _ in range(5)]
    pairs = [(x, y) for x, y in itertools.product(a, b)]
    assert cliffs_delta(a, b) == pytest.approx((sum(y > x for x, y in pairs) - sum(y < x for x, y in pairs)) / 35)
    assert cliffs_delta([1, 2], [3, 4]) == 1.0


def test_adjusted_p_values_are_those_of_the_paper() -> None:
    # Table 1 of Benjamini and Hochberg (1995): four of these fifteen are rejected at 5 %.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    shuffled = random.Random(4).sample(p, len(p))
    found = dict(zip(shuffled, adjusted(shuffled), strict=True))
    assert sum(found[x] <= 0.05 for x in p) == 4
    assert found[0.0095] == pytest.approx(0.0095 * 15 / 4)
    assert all(found[x] >= x for x in p)
    assert adjusted([]) == []


def test_spread_is_pooled_within_runs_so_that_steps_between_them_do_not_count() -> None:
    rng = random.Random(5)
    runs = [noisy(rng, centre, 0.01, 5) for centre in (1.0, 2.0, 4.0) for _ in range(20)]
    found = pooled_sd(runs)
    assert found is not None
    assert found[0] == pytest.approx(0.01, rel=0.15)
    assert found[1] == 300
    assert pooled_sd([[1.0], [2.0]]) is None
