"""What creeps is told once, on the first night on which it is firm; what nights have told, what is flat and what is small is not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.cli.regress import Unjudged, screened
from bench.judge.answer import is_worse
from bench.judge.drift import SHARE, Drift, been_there, drift_words, firm_drift, new_drift
from bench.judge.screen import screen
from bench.judge.verdict import Series
from bench.store import Store
from tests import factories

FLOOR = 0.01


def noisy(levels: Sequence[float], seed: int = 3, spread: float = 0.005) -> list[float]:
    rng = random.Random(seed)
    return [level * rng.gauss(1, spread) for level in levels]


def told_on(values: Sequence[float]) -> list[int]:
    """The nights, counted from 1, on which the series is news."""
    return [night for night in range(1, len(values) + 1) if new_drift(values[:night], floor=FLOOR) is not None]


@pytest.mark.parametrize("seed", range(3))
def test_a_creep_that_no_night_is_a_suspect_for_is_told_once(seed: int) -> None:
    values = noisy([1.0015**night for night in range(80)], seed, spread=0.01)
    suspects = [screen(values[: night + 1]).sight == "suspect" for night in range(80)]
    assert not any(one and other for one, other in itertools.pairwise(suspects))
    (night,) = told_on(values)
    assert 1 + SHARE < (firm_drift(values[:night], floor=FLOOR) or 0) < 1.0015**night * 1.02


def test_what_does_not_creep_is_no_drift() -> None:
    for spread in (0.003, 0.01, 0.03):
        for seed in range(50):
            assert firm_drift(noisy([1.0] * 60, seed, spread), floor=FLOOR) is None
    assert told_on(noisy([1.0] * 20 + [1.03] * 20)) == []
    assert told_on(noisy([1.0015 ** (80 - night) for night in range(80)])) == []


def test_a_step_that_nights_have_told_is_not_told_again_but_what_creeps_after_it_is() -> None:
    step = [1.0] * 20 + [1.2] * 25
    assert told_on(noisy(step)) == []
    creeping = noisy([*step, *(1.2 * 1.003**night for night in range(50))])
    (night,) = told_on(creeping)
    assert night > len(step)
    assert (firm_drift(creeping, floor=FLOOR) or 0) < 1.2


def test_a_repaired_drift_is_none_and_a_young_series_has_none() -> None:
    creep = [1.003**night for night in range(40)]
    assert firm_drift(noisy(creep), floor=FLOOR) is not None
    assert firm_drift(noisy([*creep, *[1.0] * 10]), floor=FLOOR) is None
    assert firm_drift(noisy([1.05**night for night in range(9)]), floor=FLOOR) is None


def test_a_night_tells_it_as_news_which_changes_no_verdict_and_the_next_night_does_not(tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    values = noisy([1e-3 * 1.003**night for night in range(40)])
    (first,) = told_on(values)
    with Store.open(path) as store:
        for night, value in enumerate(values[: first + 1]):
            run = factories.run(
                label=f"night {night + 1}", started_at=f"2026-{night // 28 + 1:02}-{night % 28 + 1:02}T03:00:00+00:00"
            )
            store.add_run(run)
            store.add_result(factories.result(run.id, factories.case("eager"), time_s=value))
        said = []
        for label in (f"night {night}" for night in (first - 1, first, first + 1)):
            found = screened(store, (store.find_run(label),), every_s=86400.0)
            assert not isinstance(found, Unjudged)
            assert not any(is_worse(verdict) for verdict in found.verdicts)
            said.append([news for news in found.news if "drifted" in news])
            assert set(said[-1]) <= set(found.banners)
    assert [len(news) for news in said] == [0, 1, 0]
    assert "eager, time_s: 1.0" in said[1][0]


@pytest.mark.parametrize(
    "pattern", ["........x..xxxxxx........xxxx.", "....x............x.x.xx", "xxxx....xxxxxx....xx........xxxxxxxxx"]
)
def test_a_series_that_moves_between_two_levels_has_been_there_and_one_that_creeps_has_not(pattern: str) -> None:
    for seed in range(20):
        moving = noisy([1.08 if one == "x" else 1.0 for one in [*pattern, *"xxxxx"]], seed)
        assert been_there(moving, 1.08)
        assert not been_there(noisy([1.08 ** (night / 60) for night in range(60)], seed), 1.08)
        assert not been_there(noisy([1.0] * 30 + [1.03] * 10 + [1.08] * 20, seed), 1.08)


def test_what_moves_between_two_levels_is_not_told_as_what_creeps() -> None:
    case = factories.case("eager")
    one, other = (Drift(Series(case, case.key, metric, "hard", 1), 1.08, again=True) for metric in ("time_s", "peak_bytes"))
    creeping = Drift(Series(case, case.key, "host_bytes", "hard", 1), 1.06)
    said = [
        drift_words(found, lambda case: case.subject_label, machine=False, words="") or ""
        for found in ([one], [creeping, one, other])
    ]
    assert said[0].startswith("1 series is back at a worse level that had been left before: eager, time_s: 1.08× (bench history ")
    assert (
        "; 2 series are back at worse levels that had been left before: eager, time_s: 1.08×, eager, peak_bytes: 1.08× (" in said[1]
    )
    assert said[1].startswith(
        "1 series has drifted away from the best level in steps too small for any night: eager, host_bytes: 1.06×; "
    )


def test_the_worst_are_named_with_the_command_that_shows_more() -> None:
    def of(subject: str, ratio: float) -> Drift:
        case = factories.case(subject)
        return Drift(Series(case, case.key, "time_s", "hard", 1), ratio)

    found = [of(name, ratio) for name, ratio in (("eager", 1.06), ("sdpa_math", 1.31), ("sdpa_flash", 1.1), ("flex", 1.2))]
    said = drift_words(found, lambda case: case.subject_label, machine=False, words=" --db my.db")
    assert said == (
        "4 series have drifted away from the best level in steps too small for any night: sdpa_math, time_s: 1.31×, flex, time_s: 1.20×, "
        f"sdpa_flash, time_s: 1.10× and 1 more (bench history {found[1].series.key[:12]} --db my.db shows the worst)"
    )
    alone = drift_words(found[:1], lambda case: case.subject_label, machine=True, words="")
    assert alone is not None
    assert alone.startswith("1 series has drifted")
    assert "so has the canary, so look at the machine first" in alone
    assert drift_words([], lambda case: case.subject_label, machine=True, words="") is None
