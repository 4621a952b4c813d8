"""Whole nights drawn from process medians: hardly a false alarm at any spread, and the promised power at a small one."""

from __future__ import annotations

import random

import pytest

from bench.errors import SelectionError
from bench.judge.evidence import Evidence
from bench.judge.resampled import NightlyCalibration, nightly
from tests import factories
from tests.judge.sides import evidence, noisy, trials


def measured(spread: float, *, series: int = 20, processes: int = 40) -> Evidence:
    rng = random.Random(17)
    cases = [factories.case("eager", seq_len=128 + place) for place in range(series)]
    return evidence([row for case in cases for row in trials(case, noisy(rng, 1e-2, spread, processes))], cases)


def found(calibration: NightlyCalibration, factor: float) -> float:
    (power,) = [power for power in calibration.power if power.factor == factor]
    return power.found / power.of


def test_twenty_thousand_unchanged_nights_give_less_than_one_alarm_in_a_thousand_and_real_changes_are_found() -> None:
    drawn = nightly([measured(0.005)], nights=20_000, seed=1)
    assert (drawn.series, drawn.processes, drawn.nights) == (20, 40, 20_000)
    assert drawn.per_thousand <= drawn.alarms_at_most <= 1.0
    assert found(drawn, 1.05) >= 0.95
    assert found(drawn, 1.03) >= 0.80


def test_at_one_per_cent_a_change_of_five_per_cent_is_found_in_nine_nights_of_ten() -> None:
    drawn = nightly([measured(0.01)], nights=2_000, seed=2)
    assert drawn.suspects > 0
    assert drawn.alarms == 0
    assert found(drawn, 1.05) >= 0.90
    assert found(drawn, 1.03) >= 0.50


def test_a_series_with_few_processes_is_no_distribution_to_draw_from() -> None:
    with pytest.raises(SelectionError, match="--trials 40"):
        nightly([measured(0.01, series=1, processes=39)], nights=10, seed=1)
