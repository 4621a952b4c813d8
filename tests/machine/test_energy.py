"""Energy between two moments, by a counter that moves in steps and is read now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from bench.machine import ConditionsSampler, find_device
from bench.machine.energy import STRETCHES, EnergyUnknownError, energy_between
from tests.machine.fake_nvml import Gpu


def counter(power_w: Callable[[float], float], *, every_s: float, read_every_s: float, until_s: float) -> list[tuple[float, int]]:
    """Readings of a counter that is brought up to date every `every_s`, under a power that is even within a millisecond."""
    total, totals = 0.0, []
    for step in range(round(until_s * 1000) + 1):
        totals.append(total)
        total += power_w(step / 1000)
    readings = []
    for number in range(int(until_s / read_every_s) + 1):
        moment = number * read_every_s
        updated = math.floor(moment / every_s + 1e-9) * every_s
        readings.append((moment, round(totals[round(updated * 1000)])))
    return readings


@pytest.mark.parametrize(("every_s", "read_every_s"), [(0.02, 0.1), (0.1, 0.1), (0.1, 0.03), (0.07, 0.1)])
def test_an_even_power_is_found_within_what_the_steps_of_the_counter_allow(every_s: float, read_every_s: float) -> None:
    readings = counter(lambda _: 650.0, every_s=every_s, read_every_s=read_every_s, until_s=6.0)
    used = energy_between(readings, 1.234, 4.567)
    truth = 650.0 * (4.567 - 1.234)
    assert abs(used.joules - truth) <= used.error_share * truth
    assert used.error_share < 0.1


def test_a_load_that_ends_with_the_timed_calls_is_found_within_the_same_bound() -> None:
    readings = counter(lambda t: 700.0 if 0.5 <= t < 4.0 else 90.0, every_s=0.1, read_every_s=0.1, until_s=6.0)
    used = energy_between(readings, 1.0, 4.0)
    assert abs(used.joules - 2100.0) <= used.error_share * 2100.0


def test_what_lasts_no_longer_than_some_steps_has_no_energy_but_a_reason() -> None:
    readings = counter(lambda _: 650.0, every_s=0.1, read_every_s=0.1, until_s=3.0)
    short_s = 0.1 * STRETCHES - 0.05
    with pytest.raises(EnergyUnknownError, match=r"0\.95 s are too short.*every 0\.1 s, and 1 s are needed"):
        energy_between(readings, 1.0, 1.0 + short_s)


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        ([], "does not tell"),
        ([(0.0, 5000), (5.0, 10)], "began anew"),
        ([(float(second), 5000) for second in range(20)], "not seen to move"),
        ([(2.0, 1), (3.0, 2), (9.0, 3)], "both before and after"),
        ([(0.0, 1), (3.0, 2), (4.0, 3)], "both before and after"),
    ],
)
def test_readings_that_do_not_tell_are_never_zero_joules(readings: list[tuple[float, int]], words: str) -> None:
    with pytest.raises(EnergyUnknownError, match=words):
        energy_between(readings, 1.0, 8.0)


def test_the_sampler_keeps_each_reading_of_the_counter_with_its_moment(gpus: Callable[..., None]) -> None:
    gpus(Gpu("GPU-a", energy_mj=1_000_000))
    with ConditionsSampler(find_device("cuda"), interval_s=0.01) as sampler:
        pass
    moments, energies = zip(*sampler.energy_mj, strict=True)
    assert list(moments) == sorted(moments)
    assert energies == tuple(1_000_000 + 50_000 * (index + 1) for index in range(len(energies)))
    assert sampler.summary()["energy_j"] == 50.0 * (len(energies) - 1)


def test_the_counter_is_followed_more_closely_than_all_else(gpus: Callable[..., None]) -> None:
    gpus(Gpu("GPU-a"))
    with ConditionsSampler(find_device("cuda"), interval_s=0.05) as sampler:
        while sampler._count < 3:
            time.sleep(0.01)
    assert len(sampler.energy_mj) > 2 * sampler.summary()["readings"]


def test_a_gpu_that_does_not_tell_its_energy_has_no_readings(gpus: Callable[..., None]) -> None:
    gpus(Gpu("GPU-a", silent=frozenset({"nvmlDeviceGetTotalEnergyConsumption"})))
    with ConditionsSampler(find_device("cuda"), interval_s=0.01) as sampler:
        pass
    assert not sampler.energy_mj
