"""Our own labelled series, kind by kind: how much of what is in them is found, and how much that is not."""

from __future__ import annotations

import random
from functools import cache

import pytest

from bench.judge.history import History, histories
from bench.judge.nights import missed_nights
from bench.judge.points import Level, Levels
from bench.judge.regress import two_sided
from bench.judge.resampled import nightly
from bench.judge.screen import FEWEST, FLOOR, Sight
from bench.judge.verdict import Series
from bench.records import NIGHTLY, Run
from bench.stats import median
from tests import factories
from tests.judge.labelled import CHANGE, KINDS, Labelled, bimodal
from tests.judge.sides import evidence, trials

SEEDS = range(40)
NEAR = 2
CASE = factories.case()
OLD, NEW = factories.environment(), factories.environment(**{"package:torch": "2.14.0"})


def night_of(number: int) -> Run:
    month, day = divmod(number, 28)
    return factories.run(id=f"night-{number:03}", started_at=f"2026-{month + 1:02}-{day + 1:02}T03:00:00+00:00", reason=NIGHTLY)


RUNS = [night_of(number) for number in range(80)]


@cache
def read(kind: str, seed: int) -> tuple[Labelled, History]:
    """A series as `bench history` reads it."""
    made = KINDS[kind](random.Random(seed))
    present = [number for number in range(len(made.nights)) if number not in made.absent]
    after = made.other_environment_from
    environments = {env.hard_hash + env.soft_hash: env for env in (OLD, NEW)}
    old, new = environments
    by_run = {
        RUNS[number].id: Level(
            median(made.nights[number]),
            len(made.nights[number]),
            frozenset({new if after is not None and number >= after else old}),
        )
        for number in present
    }
    series = Series(CASE, CASE.key, "time_s", OLD.hard_hash, 1, "-")
    levels = Levels(tuple(RUNS[number] for number in present), {series.key: (series, by_run)}, environments)
    (found,) = histories(levels, [series.key])
    return made, found


def steps_at(found: History) -> list[int]:
    """The nights of the steps that are certain."""
    numbers = {run.id: number for number, run in enumerate(RUNS)}
    certain = [step.change for step in found.steps if step.change.firm and not step.change.provisional]
    return [numbers[found.points[change.index].run.id] for change in certain]


@pytest.mark.parametrize(
    ("kind", "recall"),
    [("step", 0.95), ("bimodal_step", 0.95), ("occupancy", 0.95), ("environment_break", 0.95), ("gap_step", 0.95)],
)
def test_a_change_of_level_is_found_within_two_nights(kind: str, recall: float) -> None:
    found = 0
    for seed in SEEDS:
        made, told = read(kind, seed)
        found += any(abs(night - (made.change or 0)) <= NEAR for night in steps_at(told))
    assert found >= recall * len(SEEDS)


@pytest.mark.parametrize(
    "kind",
    ["unchanged", "step", "spike", "bimodal", "bimodal_step", "occupancy", "variance", "environment_break", "gap", "gap_step"],
)
def test_where_no_level_changes_hardly_any_series_in_twenty_has_a_step(kind: str) -> None:
    false = 0
    for seed in SEEDS:
        made, told = read(kind, seed)
        false += sum(made.change is None or abs(night - made.change) > NEAR for night in steps_at(told))
    assert false <= 0.05 * len(SEEDS)


def test_a_drift_of_a_third_of_a_per_cent_a_week_is_told_within_eight_weeks_and_none_is_seen_in_noise() -> None:
    def told(kind: str) -> float:
        return sum((read(kind, seed)[1].drift or 1.0) > 1.01 for seed in SEEDS) / len(SEEDS)

    assert told("drift") >= 0.9
    assert all(told(kind) <= 0.05 for kind in ("unchanged", "spike", "bimodal", "variance", "gap"))


@pytest.mark.parametrize(
    ("kind", "most"), [("unchanged", 0.001), ("spike", 0.001), ("gap", 0.001), ("variance", 0.03), ("bimodal", 0.05)]
)
def test_the_screen_points_at_spikes_and_at_few_nights_that_are_none(kind: str, most: float) -> None:
    """A suspect is no alarm: it is measured again."""
    suspects = nights = seen = spikes = 0
    for seed in SEEDS:
        made, _ = read(kind, seed)
        present = [number for number in range(len(made.nights)) if number not in made.absent]
        values = [median(made.nights[number]) for number in present]
        for place in range(FEWEST, len(values)):
            is_suspect = two_sided(values[: place + 1], FLOOR).sight is Sight.SUSPECT
            if present[place] in made.spikes:
                seen += is_suspect
                spikes += 1
            else:
                suspects += is_suspect
                nights += 1
    assert suspects <= most * nights
    assert spikes == (4 * len(SEEDS) if kind == "spike" else 0)
    # Two of them at one level make that a known one.
    assert seen >= 0.98 * spikes


def test_two_clock_states_give_one_alarm_in_a_thousand_nights_at_most_and_hide_no_change() -> None:
    rng = random.Random(3)
    cases = [factories.case(seq_len=128 + place) for place in range(20)]
    rows = [row for case in cases for row in trials(case, [time_s for night in bimodal(rng).nights for time_s in night][:60])]
    slow = sum((row.medians["time_s"] or 0.0) > 1.02e-2 for row in rows)
    assert 0.1 < slow / len(rows) < 0.3, "both states are there"
    drawn = nightly([evidence(rows, cases)], nights=4_000, seed=1)
    assert drawn.suspects > 100, "the state of a night's median is seen"
    assert drawn.per_thousand <= 1.0
    # One of 5 % looks like the slow state on its first night: test_modes.py has when it is seen.
    (power,) = [power for power in drawn.power if power.factor == 1.10]
    assert power.found >= 0.95 * power.of


def test_a_step_with_another_environment_says_so_at_that_very_night() -> None:
    for seed in SEEDS:
        _, told = read("environment_break", seed)
        (step,) = [step for step in told.steps if step.change.firm]
        assert step.environment == ("package:torch",)
        assert told.points[step.change.index].run is RUNS[CHANGE]


def test_a_gap_is_told_by_the_first_night_after_it() -> None:
    made, _ = read("gap", 0)
    present = [RUNS[number] for number in range(CHANGE + 1) if number not in made.absent]
    (said,) = missed_nights(present, RUNS[CHANGE], every_s=86_400.0)
    assert said.startswith("10 nights did not run since")
