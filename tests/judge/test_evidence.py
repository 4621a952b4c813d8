"""What is read of stored runs for judging: the rows that count, their medians, the GPU, errors as shares, and the noise of earlier runs."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from bench.judge.compare import compare
from bench.judge.evidence import load_evidence
from bench.judge.noise import between_runs, load_noise
from bench.judge.points import load_levels
from bench.judge.sides import earlier_runs
from bench.judge.thresholds import ERROR_SHARE
from bench.judge.verdict import Word
from bench.records import Check, RunState, Status
from bench.store import Store
from tests import factories
from tests.judge.sides import noisy

EAGER = factories.case()
ASKS_WHAT_FITS = {"schema": 1, "name": "attention", "protocol": {"trials": 3, "probe": True}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "bench.db")


def test_a_trial_is_its_median_its_gpu_and_its_largest_error(store: Store) -> None:
    run = factories.run()
    checks = (Check("out", "small", 1e-7, 1e-7, 4e-7, True), Check("out", "measured", 3e-7, 1e-7, 4e-7, True))
    unlimited = Check("dropout_rate", "measured", 1e-2, None, None, True)
    store.add_run(run)
    store.add_result(factories.result(run.id, EAGER, checks=(*checks, unlimited), conditions={"gpu_uuid": "GPU-7"}))
    (row,) = load_evidence(store, [run]).trials
    assert row.gpu == "GPU-7"
    assert row.medians["time_s"] == pytest.approx(1.01e-3)
    assert row.medians[ERROR_SHARE] == pytest.approx(0.75)
    assert "load_1min" not in row.medians


@pytest.mark.parametrize(
    ("conditions", "crowded"),
    [
        ({"machine_busy_share": 1.0, "busy_processes": [{"name": "other", "cores": 1.0}]}, True),
        ({"machine_busy_share": 1.0, "busy_processes": []}, False),
        ({"machine_busy_share": 0.3, "busy_processes": [{"name": "other", "cores": 1.0}]}, False),
        ({"busy_processes": [{"name": "other", "cores": 1.0}]}, False),
    ],
)
def test_a_trial_is_crowded_where_others_held_the_cores(store: Store, conditions: dict[str, Any], crowded: bool) -> None:
    run = factories.run()
    store.add_run(run)
    store.add_result(factories.result(run.id, EAGER, conditions=conditions))
    evidence = load_evidence(store, [run])
    assert evidence.trials[0].crowded is crowded
    assert any("held the cores" in banner for banner in compare(evidence, evidence).banners) is crowded


def test_excluded_and_superseded_rows_and_failed_trials_give_no_number(store: Store) -> None:
    run = factories.run()
    store.add_run(run)
    first = factories.result(run.id, EAGER)
    again = dataclasses.replace(factories.result(run.id, EAGER), trial=dataclasses.replace(first.trial, attempt=1))
    oom = factories.result(run.id, EAGER, status=Status.OOM)
    oom = dataclasses.replace(oom, trial=dataclasses.replace(oom.trial, index=1, attempt=1))
    for row in (first, again, oom):
        store.add_result(row)
    found = load_evidence(store, [run])
    assert sorted((row.status, bool(row.medians)) for row in found.trials) == [(Status.OK, True), (Status.OOM, False)]
    assert (found.excluded, found.set_aside) == (1, {})


def test_who_excludes_a_row_is_heard_with_the_reason(store: Store) -> None:
    run = factories.run()
    store.add_run(run)
    row = factories.result(run.id, EAGER)
    store.add_result(row)
    store.exclude(row.id, "the machine was busy")
    found = load_evidence(store, [run])
    assert (found.trials, found.set_aside) == ((), {(EAGER.key, row.trial.arm): "the machine was busy"})


def test_the_noise_of_earlier_runs_widens_the_band_of_the_same_series(store: Store) -> None:
    rng = random.Random(1)
    runs = []
    for night in range(8):
        centre = 1e-2 * (0.97 if night % 2 else 1.03)
        run = factories.run(started_at=f"2026-01-{night + 1:02}T03:00:00+00:00")
        store.add_run(run)
        store.add_results(
            factories.result(run.id, EAGER, index=index, time_s=value) for index, value in enumerate(noisy(rng, centre, 0.002, 5))
        )
        runs.append(run)
    history = earlier_runs(store, [runs[6]], [runs[7]])
    assert [run.id for run in history] == [run.id for run in reversed(runs[:6])]
    noise = load_noise(store, history)
    found = compare(load_evidence(store, [runs[6]]), load_evidence(store, [runs[7]]), noise=noise)
    verdict = next(verdict for verdict in found.verdicts if verdict.series.metric == "time_s")
    assert verdict.series.key in noise
    assert verdict.threshold is not None
    assert verdict.threshold.source == "how far 6 earlier runs differ"
    # Neighbours differ by 6 %: as normal numbers of 6.3 % each, so two of them by 9 %, of which thrice is the band.
    assert verdict.threshold.relative == pytest.approx(0.305, abs=0.02)


def test_unfinished_and_later_runs_are_no_history(store: Store) -> None:
    first, second = factories.run(started_at="2026-01-03T00:00:00"), factories.run(started_at="2026-01-04T00:00:00")
    for run in (
        first,
        second,
        factories.run(started_at="2026-01-02T00:00:00", state=RunState.INTERRUPTED),
        factories.run(started_at="2026-01-05T00:00:00"),
        factories.run(started_at="2026-01-01T00:00:00", suite="other"),
    ):
        store.add_run(run)
    assert earlier_runs(store, [first], [second]) == []


def test_a_step_in_the_history_is_no_noise_between_runs() -> None:
    rng = random.Random(2)
    before, after = noisy(rng, 1.0, 0.01, 20), noisy(rng, 2.0, 0.01, 20)
    steady, stepped = between_runs(before + noisy(rng, 1.0, 0.01, 20)), between_runs(before + after)
    assert steady is not None
    assert stepped is not None
    assert stepped < 2 * steady
    assert between_runs([1.0] * 4) is None


def test_times_of_probes_are_held_against_nothing_and_what_they_do_not_ask_for_is_not_missing(store: Store) -> None:
    ordinary, probe, again = factories.run(), *(factories.run(suite_data=ASKS_WHAT_FITS) for _ in range(2))
    for run, time_s, saved in ((ordinary, 1e-3, True), (probe, 5e-3, False), (again, 9e-3, False)):
        store.add_run(run)
        for index in range(3):
            row = factories.result(run.id, EAGER, index=index, time_s=time_s, peak=2**30)
            more = (factories.measurement("saved_bytes", (2.0**29,)),) if saved else ()
            store.add_result(dataclasses.replace(row, measurements=(*row.measurements, *more)))
    sides = [load_evidence(store, [run]) for run in (ordinary, probe, again)]
    for first, second in ((0, 1), (1, 0), (1, 2)):
        found = compare(sides[first], sides[second])
        assert {(verdict.series.metric, verdict.word) for verdict in found.verdicts if verdict.series.metric != ERROR_SHARE} == {
            ("peak_bytes", Word.SAME)
        }
        assert sum("asked only what fits" in banner for banner in found.banners) == 1 + (first == 1 and second == 2)
    assert len(load_noise(store, [ordinary, probe, again])) == len(load_noise(store, [ordinary])) == 1
    levels = load_levels(store, [ordinary, probe, again], ["time_s", "peak_bytes"])
    assert {series.metric: len(by_run) for series, by_run in levels.by_series.values()} == {"time_s": 1, "peak_bytes": 3}
