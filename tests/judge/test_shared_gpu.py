"""Rows whose GPU others computed on, in the store: no verdict about time rests on them or is silent about them, and memory counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.judge.answer import answer
from bench.judge.bisect import side_of
from bench.judge.claim_numbers import Row
from bench.judge.claim_records import Finding
from bench.judge.claim_records import Word as Claimed
from bench.judge.claims import judge_claims
from bench.judge.compare import Comparison, compare
from bench.judge.confirm import suspects
from bench.judge.decided import decided
from bench.judge.evidence import load_evidence
from bench.judge.history import histories
from bench.judge.noise import load_noise
from bench.judge.points import load_levels
from bench.judge.regress import regress
from bench.judge.shared_gpu import beside_of, computed_beside
from bench.judge.spreads import spreads
from bench.judge.verdict import CANNOT_TELL, Verdict, Word
from bench.records import Environment, Json, Result, Run, Trial
from bench.run.bisecting import Side
from bench.store import Store
from tests import factories
from tests.judge.test_claims import claim

BUSY: dict[str, Json] = {"other_compute_processes": ["python3", "python3"], "busy_processes": [{"name": "python3", "cores": 0.7}]}
IDLE: dict[str, Json] = {"other_compute_processes": ["jupyter"], "busy_processes": [{"name": "backup", "cores": 0.7}]}
ALONE: dict[str, Json] = {"other_compute_processes": [], "busy_processes": []}
H200 = Environment({"device": "cuda", "gpu_model": "NVIDIA H200", "mig": None}, {})
CASE = factories.case(device="cuda", dtype="bf16")
GIB = 2.0**30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "bench.db") as opened:
        yield opened


def measured(
    store: Store,
    time_s: float,
    beside: Sequence[dict[str, Json]],
    *,
    night: int = 1,
    peak: float = GIB,
    used: float = GIB,
    compiling_s: float = 20.0,
) -> Run:
    """A stored run of one case, a trial for each of `beside`, with processes a thousandth apart."""
    run = factories.run(device="cuda", started_at=f"2026-01-{night:02}T03:00:00+00:00")
    store.add_run(run)
    rows = []
    for index, conditions in enumerate(beside):
        own = time_s * (1 + index / 1000)
        row = factories.result(
            run.id, CASE, index=index, time_s=own, peak=peak, environment=H200, conditions={"gpu_uuid": "GPU-1", **conditions}
        )
        more = (("device_used_bytes", used), ("energy_j", own), ("compile_cold_s", compiling_s), ("cycles", own * 1e9))
        found = tuple(factories.measurement(name, (value,)) for name, value in more)
        rows.append(dataclasses.replace(row, measurements=(*row.measurements, *found), started_at=run.started_at))
    store.add_results(rows)
    return run


def compared(store: Store, first: Run, second: Run) -> Comparison:
    return compare(load_evidence(store, [first]), load_evidence(store, [second]))


def by_metric(found: Comparison) -> dict[str, Verdict]:
    return {verdict.series.metric: verdict for verdict in found.verdicts}


# --- which rows --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        (BUSY, True),
        (IDLE, False),
        ({**IDLE, "busy_processes": ["jupyter"]}, True),
        ({**BUSY, "other_compute_processes": ["unknown"]}, True),
        ({**BUSY, "other_compute_processes": []}, False),
        ({"other_compute_processes": ["python3"], "busy_processes": []}, False),
        ({}, False),
    ],
)
def test_who_only_holds_memory_did_not_compute(conditions: dict[str, Json], *, found: bool) -> None:
    assert computed_beside(conditions) is found


@pytest.mark.parametrize(
    ("beside", "touched", "without_time"),
    [
        ([IDLE, ALONE, ALONE], 0, 0),
        ([BUSY, ALONE, ALONE], 1, 1),
        ([BUSY, IDLE, ALONE, ALONE, ALONE], 2, 2),
        ([BUSY, ALONE], 1, 2),
        ([BUSY, IDLE, ALONE], 2, 3),
    ],
)
def test_what_is_stored_says_the_same_as_the_records(
    store: Store, beside: list[dict[str, Json]], touched: int, without_time: int
) -> None:
    run = measured(store, 1e-2, beside)
    trials = load_evidence(store, [run]).trials
    assert (sum(row.disturbed for row in trials), sum("time_s" not in row.medians for row in trials)) == (touched, without_time)
    of_records = beside_of(store.results([run.id]))
    assert (len(of_records.disturbed), len(of_records.untimed)) == (touched, without_time)


# --- two sides ---------------------------------------------------------------------------------------------------------------------


def test_a_side_beside_which_others_computed_is_neither_better_nor_worse_and_its_memory_is_judged(store: Store) -> None:
    alone, shared = measured(store, 1e-2, [ALONE] * 3), measured(store, 5e-3, [BUSY] * 3, used=9 * GIB, compiling_s=90.0)
    for sides, which in (((alone, shared), "second"), ((shared, alone), "first")):
        found = compared(store, *sides)
        verdicts = by_metric(found)
        why = f"the {which} side: other processes computed on its GPU in 3 of 3 trials"
        for metric in ("time_s", "energy_j", "compile_cold_s"):
            assert (verdicts[metric].word, verdicts[metric].reader_word, verdicts[metric].reason) == (
                Word.INVALID,
                CANNOT_TELL,
                why,
            )
            assert verdicts[metric].ratio is None
            assert (verdicts[metric].first.median is None) is (which == "first")
        assert verdicts["device_used_bytes"].reason == f"the {which} side: others had memory of its GPU in 3 of 3 trials"
        assert verdicts["peak_bytes"].word is Word.SAME
        assert any(f"computed on the GPU in 3 of 3 trials of the {which} side" in banner for banner in found.banners)
        assert (answer(found).exit_code, answer(found).why) == (3, "1 of 1 rows have no time that can be used")


def test_memory_that_grew_beside_others_is_worse_all_the_same(store: Store) -> None:
    found = compared(store, measured(store, 1e-2, [ALONE] * 3), measured(store, 1e-2, [BUSY] * 3, peak=2 * GIB))
    assert by_metric(found)["peak_bytes"].word is Word.WORSE
    assert answer(found).exit_code == 1


def test_both_sides_beside_others_are_told_as_well(store: Store) -> None:
    reason = by_metric(compared(store, measured(store, 1e-2, [BUSY] * 3), measured(store, 2e-2, [BUSY] * 3)))["time_s"].reason
    assert reason.startswith("the first side: other processes computed")
    assert "; the second side: other processes computed" in reason


def test_one_trial_of_many_is_left_out_and_told(store: Store) -> None:
    alone, shared = measured(store, 1e-2, [ALONE] * 5), measured(store, 2e-2, [BUSY, *[ALONE] * 4])
    verdict = by_metric(compared(store, alone, shared))["time_s"]
    assert (verdict.word, verdict.first.n, verdict.second.n) == (Word.WORSE, 5, 4)
    assert "left out of the second side: other processes computed on its GPU in 1 of 5 trials" in verdict.notes


def test_first_calls_of_milliseconds_are_not_told_beside_others_either(store: Store) -> None:
    sides = [measured(store, 1e-2, beside, compiling_s=0.01) for beside in ([ALONE] * 3, [BUSY] * 3)]
    assert "compile_cold_s" not in by_metric(compared(store, sides[0], sides[1]))


def test_an_idle_neighbour_takes_nothing_but_the_growth_of_the_device(store: Store) -> None:
    found = compared(store, measured(store, 1e-2, [ALONE] * 3), measured(store, 2e-2, [IDLE] * 3))
    assert by_metric(found)["time_s"].word is Word.WORSE
    assert by_metric(found)["device_used_bytes"].word is Word.INVALID


# --- nights ------------------------------------------------------------------------------------------------------------------------


def night_of(store: Store, runs: Sequence[Run]) -> Comparison:
    return regress(load_evidence(store, runs[:-1]), load_evidence(store, runs[-1:]))


def test_a_shared_night_raises_no_alarm_and_is_no_measure_for_the_next(store: Store) -> None:
    runs = [measured(store, 1e-2, [ALONE] * 3, night=night) for night in range(1, 13)]
    runs.append(measured(store, 3e-2, [BUSY] * 3, night=13, compiling_s=90.0))
    shared = night_of(store, runs)
    verdict = by_metric(shared)["time_s"]
    assert (verdict.word, verdict.screening) == (Word.INVALID, None)
    assert verdict.reason == "tonight other processes computed on its GPU in 3 of 3 trials"
    assert by_metric(shared)["compile_cold_s"].word is Word.INVALID
    assert not suspects(shared)
    assert answer(shared).exit_code == 3
    assert any("1 time that the night before had is not judged" in news for news in shared.news)
    assert any("none is a measure for nights to come" in banner for banner in shared.banners)

    runs.append(measured(store, 1e-2, [ALONE] * 3, night=14))
    after = by_metric(night_of(store, runs))["time_s"]
    assert (after.first.n, after.screening) == (12, "clear")
    runs[-1] = measured(store, 3e-2, [ALONE] * 3, night=14)
    assert by_metric(night_of(store, runs))["time_s"].word is Word.AMBIGUOUS, "the shared night confirms nothing"


def test_a_second_shared_night_is_no_news_and_nights_that_were_all_shared_teach_nothing(store: Store) -> None:
    runs = [measured(store, 1e-2, [BUSY] * 3, night=night) for night in range(1, 5)]
    assert night_of(store, runs).news == ()
    runs.append(measured(store, 1e-2, [ALONE] * 3, night=5))
    found = night_of(store, runs)
    verdict = by_metric(found)["time_s"]
    assert (verdict.word, verdict.screening) == (Word.INSUFFICIENT, "learning")
    assert verdict.reason == "learning: others were on its GPU on all 4 nights before that measured it"
    assert by_metric(found)["peak_bytes"].word is Word.SAME


def test_a_suspect_that_was_measured_again_beside_others_stays_provisional(store: Store) -> None:
    runs = [measured(store, 1e-2, [ALONE] * 3, night=night) for night in range(1, 13)]
    runs.append(measured(store, 2e-2, [ALONE] * 3, night=13))
    suspect = next(one for one in suspects(night_of(store, runs)) if one.series.metric == "time_s")
    again = compared(store, measured(store, 1e-2, [BUSY] * 3), measured(store, 2e-2, [BUSY] * 3))
    found = decided(suspect, again.verdicts, "run-9", "the version of May")
    assert (found.word, found.confirmed_in) == (suspect.word, None)
    assert "provisional" in found.notes[-1]
    assert "other processes computed on its GPU" in found.notes[-1]


# --- over time ---------------------------------------------------------------------------------------------------------------------


def test_histories_noise_and_spreads_have_no_point_of_a_shared_run_and_histories_name_it(store: Store) -> None:
    runs = [measured(store, 1e-2, [ALONE] * 3, night=night) for night in range(1, 6)]
    everything = [*runs, measured(store, 9e-2, [BUSY] * 3, night=6)]
    levels = load_levels(store, everything, ["time_s", "peak_bytes"])
    points = {one.series.metric: len(one.points) for one in histories(levels, levels.by_series)}
    assert points == {"time_s": 5, "peak_bytes": 6}
    assert [(series.metric, without) for series, without in levels.disturbed.values()] == [("time_s", {everything[-1].id})]
    assert load_noise(store, everything) == load_noise(store, runs)
    assert [one.runs for one in spreads([load_evidence(store, [run]) for run in everything])] == [5]


def test_a_series_that_was_only_ever_measured_beside_others_is_named(store: Store) -> None:
    run = measured(store, 1e-2, [BUSY] * 3)
    levels = load_levels(store, [run], ["time_s"])
    assert levels.by_series == {}
    assert [without for _, without in levels.disturbed.values()] == [{run.id}]


def test_a_candidate_beside_which_others_computed_lies_on_no_side() -> None:
    def rows(arm: str, time_s: float, beside: dict[str, Json]) -> list[Result]:
        made = [factories.result("run", time_s=time_s, peak=time_s * 1e9, conditions=beside) for _ in range(3)]
        return [dataclasses.replace(row, trial=Trial(row.case, at, 0, at, arm, at)) for at, row in enumerate(made)]

    apart = rows("good", 1e-2, ALONE) + rows("bad", 2e-2, ALONE)
    for beside, side in ((ALONE, Side.BAD), (BUSY, Side.UNKNOWN)):
        asked = rows("good", 1e-2, ALONE) + rows("asked", 2e-2, beside)
        found, words = side_of(apart, asked, "time_s", ("good", "asked", "bad"))
        assert found is side
        assert ("other processes computed on the GPU in 3 trials" in words) is (side is Side.UNKNOWN)
        assert side_of(apart, asked, "peak_bytes", ("good", "asked", "bad"))[0] is Side.BAD


# --- claims ------------------------------------------------------------------------------------------------------------------------


def claimed(store: Store, metric: str = "time_s", **expected: Any) -> Finding:
    runs = {run.id: run for run in store.runs()}
    rows = [Row(runs[row.run_id], dict(row.case.subject)["attention"], row) for row in store.results(list(runs))]
    by = {"metric": metric, "where": {"seq_len": 128}}
    (found,) = judge_claims([claim(by=by, **expected)], rows)
    return found


def test_a_claim_about_time_rests_on_no_shared_row_and_says_so(store: Store) -> None:
    measured(store, 1e-2, [BUSY] * 3)
    found = claimed(store)
    assert (found.word, found.ours) == (Claimed.NOT_COMPARABLE, None)
    assert found.why == "eager has no number that counts: other processes computed on its GPU in 3 of 3 trials"
    assert claimed(store, "tokens_per_s", unit="tokens/s", expected=12800.0).ours is None
    assert claimed(store, "peak_bytes", unit="GiB", expected=1.0).word is Claimed.REPRODUCED


def test_an_older_row_without_others_is_preferred_to_a_newer_shared_one(store: Store) -> None:
    firm = measured(store, 1e-2, [ALONE] * 3, night=1)
    assert claimed(store).why.endswith("agree)")
    measured(store, 5e-3, [BUSY] * 3, night=2)
    found = claimed(store)
    assert found.word is Claimed.REPRODUCED
    assert found.ours is not None
    assert found.ours.n == 3
    assert set(found.ours.rows) == {row.id for row in store.results([firm.id])}
    assert found.why.endswith("3 rows are left out, since others computed on their GPU")
