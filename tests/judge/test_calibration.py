"""Equal sides cry wolf hardly ever and changed ones are found: what a release may promise, measured on series whose truth is known."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

import pytest

from bench.errors import SelectionError
from bench.judge.calibration import between, limits, within
from bench.judge.evidence import Evidence
from tests import factories
from tests.judge.sides import evidence, noisy, trials

CASES = [factories.case("eager", seq_len=128 + place) for place in range(40)]

Draw = Callable[[random.Random, int], list[float]]


def gaussian(spread: float) -> Draw:
    return lambda rng, n: noisy(rng, 1e-2, spread, n)


def bimodal(rng: random.Random, n: int) -> list[float]:
    """One process in five runs in a mode that is 5 % slower."""
    return [value * (1.05 if rng.random() < 0.2 else 1.0) for value in noisy(rng, 1e-2, 0.005, n)]


def spiky(rng: random.Random, n: int) -> list[float]:
    """Three processes in a hundred are hit by something."""
    return [value * (rng.uniform(1.1, 2.0) if rng.random() < 0.03 else 1.0) for value in noisy(rng, 1e-2, 0.005, n)]


def heavy(rng: random.Random, n: int) -> list[float]:
    """Student's with three degrees of freedom."""
    return [1e-2 * math.exp(0.006 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3)) for _ in range(n)]


def one_run(draw: Draw, n: int = 10, seed: int = 1) -> Evidence:
    rng = random.Random(seed)
    return evidence([row for case in CASES for row in trials(case, draw(rng, n), peak_bytes=1e8)], CASES)


@pytest.mark.parametrize("draw", [gaussian(0.003), gaussian(0.01), gaussian(0.03), bimodal, spiky, heavy])
def test_equal_sides_give_at_most_two_false_alarms_in_a_thousand_times(draw: Draw) -> None:
    found = within(one_run(draw), rounds=25, seed=2)
    assert (found.way, found.processes, found.rows, found.other_rows) == ("within", 5, 25 * 40, 25 * 40)
    assert found.per_thousand <= 2
    assert found.other_alarms == 0


@pytest.mark.parametrize(("spread", "factor", "least"), [(0.003, 1.05, 0.98), (0.01, 1.10, 0.95), (0.003, 1.03, 0.2)])
def test_changes_are_found_at_the_spread_that_was_measured(spread: float, factor: float, least: float) -> None:
    found = within(one_run(gaussian(spread), n=16), rounds=20, seed=3)
    power = next(entry for entry in found.power if entry.factor == factor)
    assert power.of == 20
    assert power.found / power.of >= least
    assert found.spread[1] == pytest.approx(spread, rel=0.2)


def test_power_falls_with_the_spread() -> None:
    shares = []
    for spread in (0.003, 0.01, 0.03):
        power = within(one_run(gaussian(spread), n=16), rounds=12, seed=4).power
        shares.append(sum(entry.found for entry in power))
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 2 * shares[2]


def test_runs_of_one_revision_are_compared_each_with_the_next() -> None:
    found = between([one_run(gaussian(0.005), 5, seed) for seed in range(4)])
    assert (found.rounds, found.rows, found.per_thousand) == (3, 3 * 40, 0.0)


def test_runs_that_were_asked_for_other_cases_are_not_compared_with_each_other() -> None:
    """As where two GPUs share the series of equal nights: each is held against itself."""

    def shard(number: int, seed: int) -> Evidence:
        made = one_run(gaussian(0.005), 5, seed)
        (run,) = made.runs
        return dataclasses.replace(made, runs=(dataclasses.replace(run, options={"shard": [number, 2]}),))

    found = between([shard(1, 1), shard(2, 2), shard(1, 3), shard(2, 4)])
    assert (found.rounds, found.rows, dict(found.words).get("new")) == (2, 2 * 40, None)
    with pytest.raises(SelectionError, match="same cases"):
        between([shard(1, 1), shard(2, 2)])


def test_a_machine_that_moves_between_runs_is_seen_in_the_alarms() -> None:
    moved = [one_run(lambda rng, n, centre=centre: noisy(rng, centre, 0.002, n), 5, 9) for centre in (1e-2, 1.1e-2)]
    assert between(moved).per_thousand > 800


def test_the_same_seed_gives_the_same_numbers() -> None:
    run = one_run(gaussian(0.01))
    assert within(run, rounds=3, seed=7) == within(run, rounds=3, seed=7)


def test_too_few_processes_or_runs_are_refused_with_what_to_do() -> None:
    with pytest.raises(SelectionError, match="--trials 16"):
        within(one_run(gaussian(0.01), n=5), rounds=1, seed=1)
    with pytest.raises(SelectionError, match="two runs"):
        between([one_run(gaussian(0.01))])


@pytest.mark.parametrize(("events", "least", "most"), [(0, 0.0, 3.0), (1, 0.0513, 4.74), (3, 0.818, 7.75), (10, 5.43, 16.96)])
def test_the_limits_of_a_rate_are_those_of_the_printed_tables(events: int, least: float, most: float) -> None:
    found = [1000 * limit for limit in limits(events, 1000)]
    assert found == pytest.approx([least, most], abs=0.01)


@pytest.mark.parametrize(("events", "trials_"), [(900, 1000), (2_000, 20_000), (20_000, 20_000)])
def test_the_limits_of_many_events_lie_around_their_share(events: int, trials_: int) -> None:
    least, most = limits(events, trials_)
    assert least < events / trials_ <= most
    assert events == trials_ or most - least < 4 * math.sqrt(events) / trials_
