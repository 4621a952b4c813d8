"""Thirty nights with thirty revisions are thirty judged nights; a night that was not is told; what waits for its turn says since when."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.cli.regress import Unjudged, screened
from bench.cli.verdicts import as_text
from bench.judge.answer import FailOn, answer
from bench.judge.compare import Comparison
from bench.judge.nights import is_missed, lost_gpu, missed_nights
from bench.judge.regress import regress
from bench.judge.sides import is_night
from bench.judge.verdict import Word
from bench.records import NIGHTLY, Environment, RevisionItem, Run, RunState
from bench.store import Store
from tests import factories
from tests.judge.sides import evidence, noisy, trials

CASES = [factories.case("eager", seq_len=128 * place) for place in range(1, 5)]
DAY_S = 86_400.0


def night(number: int, **changes: Any) -> Run:
    changes = {"reason": NIGHTLY, "revision": (RevisionItem("kernels", "path", commit=f"{number:040x}"),), **changes}
    month, day = divmod(number, 28)
    return factories.run(started_at=f"2026-{month + 1:02}-{day + 1:02}T03:00:00+00:00", **changes)


def judged(runs: Sequence[Run], rows: Sequence[Any], environments: Sequence[Any] = ()) -> Comparison:
    known = [factories.environment(), *environments]
    before = evidence([row for row in rows if row.run_id != runs[-1].id], CASES, known)
    mine = [row for row in rows if row.run_id == runs[-1].id]
    there = {row.environment_id for row in mine}
    own = evidence(mine, CASES, [found for found in known if found.hard_hash + found.soft_hash in there])
    return regress(dataclasses.replace(before, runs=tuple(runs[:-1])), dataclasses.replace(own, runs=(runs[-1],)))


def test_thirty_nights_with_thirty_revisions_and_a_torch_upgrade_are_thirty_judged_nights() -> None:
    rng = random.Random(11)
    newer = factories.environment(**{"package:torch": "2.14.0"})
    runs, rows, learning = [], [], 10
    for number in range(learning + 30):
        run = night(number)
        runs.append(run)
        environment = newer if number >= learning + 15 else None
        for case in CASES:
            rows += trials(case, noisy(rng, 1e-2, 0.004, 5), run_id=run.id, environment=environment, peak_bytes=1e8)
    assert len({run.revision for run in runs}) == learning + 30
    for tonight in range(learning, learning + 30):
        here = {run.id for run in runs[: tonight + 1]}
        found = judged(runs[: tonight + 1], [row for row in rows if row.run_id in here], [newer])
        times = [verdict for verdict in found.verdicts if verdict.series.metric == "time_s"]
        assert len(times) == len(CASES)
        assert {verdict.screening for verdict in times} <= {"clear", "suspect"}, f"night {tonight}"
        assert not [
            verdict for verdict in found.verdicts if verdict.word in (Word.WORSE, Word.NEW, Word.MISSING, Word.INCOMPARABLE)
        ]
        assert answer(found).exit_code == 0
        # The night of the upgrade says so, and only that one.
        assert any("environment differs" in banner for banner in found.banners) == (tonight == learning + 15)


def test_a_step_with_the_torch_upgrade_is_not_blamed_on_the_code_and_one_without_it_is() -> None:
    newer = factories.environment(**{"package:torch": "2.14.0"})
    for environment, word in ((newer, Word.AMBIGUOUS), (None, Word.WORSE)):
        rng = random.Random(5)
        runs, rows = [], []
        for number in range(16):
            runs.append(night(number))
            late = number >= 14
            rows += trials(
                CASES[0],
                noisy(rng, 1.1e-2 if late else 1e-2, 0.003, 5),
                run_id=runs[-1].id,
                environment=environment if late else None,
            )
        found = judged(runs, rows, [newer])
        (time,) = [verdict for verdict in found.verdicts if verdict.series.metric == "time_s"]
        assert (time.word, time.good_run) == (word, runs[13].id)


def test_a_night_with_a_budget_says_of_every_other_row_when_it_was_last_judged() -> None:
    rng = random.Random(3)
    runs, rows = [], []
    for number in range(12):
        runs.append(night(number, state=RunState.BUDGET))
        for place in {0, 1 + number % 3}:
            rows += trials(CASES[place], noisy(rng, 1e-2, 0.003, 5), run_id=runs[-1].id)
    found = judged(runs, rows)
    assert [(one.series.case.params["seq_len"], one.last_judged[:10]) for one in found.waiting] == [
        (256, "2026-01-10"),
        (384, "2026-01-11"),
    ]
    assert not [verdict for verdict in found.verdicts if verdict.word is Word.MISSING]
    times = {v.series.case.params["seq_len"]: v for v in found.verdicts if v.series.metric == "time_s"}
    assert {size: (verdict.last_judged or "")[:10] for size, verdict in times.items()} == {128: "2026-01-11", 512: "2026-01-09"}
    assert (times[128].screening, times[512].reason) == ("clear", "learning: night 4 of 10")
    assert answer(found).exit_code == 0
    assert "2 rows wait for another night; the longest was last judged on 2026-01-10" in as_text(
        found, answer(found), everything=False
    )
    listed = as_text(found, answer(found), everything=True)
    assert "seq_len=256: last judged on 2026-01-10\n" in listed
    assert "seq_len=384: last judged on 2026-01-11\n" in listed


OTHER_CPU, ONE_GPU, OTHER_GPU = (
    dataclasses.replace(factories.environment(), hard=hard)
    for hard in (
        {"device": "cpu", "cpu_model": "Another CPU", "threads": 1},
        {"device": "cuda", "gpu_model": "One GPU"},
        {"device": "cuda", "gpu_model": "Another GPU"},
    )
)
HERE = factories.environment()


@pytest.mark.parametrize("state", [RunState.BUDGET, RunState.FINISHED])
@pytest.mark.parametrize(
    ("before", "now", "code"),
    [(HERE, HERE, 0), (HERE, OTHER_CPU, 0), (ONE_GPU, OTHER_GPU, 3), (ONE_GPU, HERE, 3)],
    ids=["the same", "another CPU model", "another GPU", "no GPU any more"],
)
def test_a_night_that_begins_to_learn_is_no_failure_unless_its_gpu_is_another_or_gone(
    state: RunState, before: Environment, now: Environment, code: int
) -> None:
    rng = random.Random(3)
    runs = [night(number, state=state) for number in range(2)]
    known = [before, now]
    first = trials(CASES[0], noisy(rng, 1e-2, 0.003, 5), run_id=runs[0].id, environment=before)
    # Of a night with a budget it is another case's turn; a whole night has the same one.
    turn = CASES[1 if state is RunState.BUDGET else 0]
    second = trials(turn, noisy(rng, 1e-2, 0.003, 5), run_id=runs[1].id, environment=now)
    found = judged(runs, [*first, *second], known)
    assert answer(found).exit_code == code
    assert [("Another CPU" in banner, "first night on this CPU model" in banner) for banner in found.banners[-1:]] == (
        [(True, True)] if now is OTHER_CPU else [(False, False)] * len(found.banners[-1:])
    )


def test_where_runners_have_several_cpu_models_each_is_judged_among_its_own_nights(tmp_path: Path) -> None:
    rng = random.Random(3)
    models = [
        dataclasses.replace(HERE, hard={**HERE.hard, "cpu_model": name})
        for name in ("Slow CPU", "Fast CPU", "Middling CPU", "Rare CPU")
    ]
    times_s = (2e-2, 1e-2, 1.5e-2, 1.2e-2)
    with Store.open(tmp_path / "bench.db") as store:

        def run_on(number: int, model: int, factor: float = 1.0) -> Run:
            run = night(number, suite="norms")
            store.add_run(run)
            store.add_results(
                factories.result(
                    run.id, CASES[0], index=index, time_s=time_s * factor, environment=models[model], started_at=run.started_at
                )
                for index, time_s in enumerate(noisy(rng, times_s[model], 0.003, 5))
            )
            return run

        for number in range(36):
            run_on(number, number % 3)
        for number, (model, factor, word) in enumerate([(0, 1.0, "clear"), (1, 1.2, "suspect"), (3, 1.0, None)], start=36):
            tonight = run_on(number, model, factor)
            found = screened(store, (tonight,), every_s=DAY_S)
            assert isinstance(found, Comparison)
            assert {v.screening for v in found.verdicts if v.series.metric in ("time_s", "status")} == {word}
            assert (found.first_on is not None, answer(found).exit_code) == (word is None, 0)
            # Nobody reads of a changed machine where the last night on this model was the same.
            assert any("environment differs" in banner for banner in found.banners) == (word is None)


def test_a_lost_gpu_is_told_every_night_until_somebody_asks_for_the_cpu() -> None:
    gpu = [night(number, device="cuda") for number in range(3)]
    later = [night(number, device="cpu", options={"device": "auto"}) for number in range(3, 9)]
    for tonight in later:
        assert "3 nights until 2026-01-03T03:00 ran on one" in (lost_gpu([*gpu, *later], tonight) or "")
    for meant in (
        night(9, device="cpu", options={"device": "cpu"}),
        night(9, device="cuda", options={"device": "auto"}),
        night(9, device="cpu", options={"device": "auto"}, reason="manual"),
        night(9, device="cpu", options={"device": "auto"}, suite="another"),
    ):
        assert lost_gpu([*gpu, *later, meant], meant) is None


def test_nights_on_the_cpu_after_nights_on_a_gpu_fail_one_after_the_other(tmp_path: Path) -> None:
    """However many there are, and though each of them alone would be fine: first turns, learning, then judged."""
    rng = random.Random(3)
    on_gpu = factories.case("eager", seq_len=128, device="cuda")
    with Store.open(tmp_path / "bench.db") as store:
        for number in range(14):
            case, kind, hardware = (on_gpu, "cuda", ONE_GPU) if number < 2 else (CASES[0], "cpu", HERE)
            run = night(number, suite="norms", device=kind, options={"device": "auto"}, state=RunState.BUDGET)
            store.add_run(run)
            store.add_results(
                factories.result(run.id, case, index=index, time_s=time_s, environment=hardware, started_at=run.started_at)
                for index, time_s in enumerate(noisy(rng, 1e-2, 0.003, 5))
            )
            found = screened(store, (run,), every_s=DAY_S)
            if number < 2:
                continue
            assert isinstance(found, Comparison)
            told = answer(found)
            assert told.exit_code == 3
            assert told.why.startswith("the GPU is gone: 2 nights until 2026-01-02T03:00 ran on one")


def test_rows_that_were_imported_from_another_machine_for_another_question_are_no_nights_before_this_one(tmp_path: Path) -> None:
    rng = random.Random(3)
    on_gpu = factories.case("eager", seq_len=4096, device="cuda")
    with Store.open(tmp_path / "bench.db") as store:
        for number in range(3):
            kind, case, hardware = ("cuda", on_gpu, ONE_GPU) if number == 0 else ("cpu", CASES[0], HERE)
            run = night(number, suite="norms", device=kind, reason="manual" if number == 0 else NIGHTLY)
            store.add_run(run)
            store.add_results(
                factories.result(run.id, case, index=index, time_s=time_s, environment=hardware, started_at=run.started_at)
                for index, time_s in enumerate(noisy(rng, 1e-2, 0.003, 5))
            )
            found = screened(store, (run,), every_s=DAY_S)
            if number < 2:
                assert isinstance(found, Unjudged)
                assert (found.code, "is the first night of suite norms" in found.why) == (0, True)
                continue
            assert isinstance(found, Comparison)
            assert {verdict.word for verdict in found.verdicts if verdict.series.metric == "status"} == set()
            assert answer(found).exit_code == 0


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_a_night_without_its_gpu_could_not_be_judged_however_well_the_cpu_does(fail_on: FailOn) -> None:
    rng = random.Random(3)
    runs = [night(number) for number in range(14)]
    rows = [row for run in runs for row in trials(CASES[0], noisy(rng, 1e-2, 0.003, 5), run_id=run.id)]
    found = judged(runs, rows)
    assert answer(found, fail_on).exit_code == 0
    told = answer(dataclasses.replace(found, lost="the GPU is gone"), fail_on)
    assert (told.exit_code, told.why) == (3, "the GPU is gone")


def test_a_night_is_a_whole_run_or_one_that_takes_turns_and_nothing_that_looked_again() -> None:
    for changes in ({}, {"reason": "manual"}, {"state": RunState.BUDGET}):
        assert is_night(night(1, **changes))
    for changes in (
        {"reason": "manual", "state": RunState.BUDGET},
        {"state": RunState.INTERRUPTED},
        {"reason": "confirm"},
        {"reason": "bisect"},
        {"reason": "rerun"},
    ):
        assert not is_night(night(1, **changes))


@pytest.mark.parametrize(
    ("present", "words"),
    [
        ([0, 1, 2, 3], []),
        ([0, 1, 3], ["1 night did not run since 2026-01-02T03:00: 2026-01-03"]),
        ([0, 3], ["2 nights did not run since 2026-01-01T03:00: 2026-01-02, 2026-01-03"]),
    ],
)
def test_a_night_that_did_not_run_is_told_by_the_next_one(present: list[int], words: list[str]) -> None:
    runs = [night(number) for number in present]
    said = missed_nights([*runs, night(3, suite="another")], runs[-1], every_s=DAY_S)
    assert said == words
    assert all(map(is_missed, said))


def test_a_night_that_broke_off_is_told_once_and_not_after_a_whole_one() -> None:
    runs = [night(0), night(1, state=RunState.INTERRUPTED), night(2), night(3)]
    assert ["did not come to its end" in words for words in missed_nights(runs[:3], runs[2], every_s=DAY_S)] == [True]
    assert missed_nights(runs, runs[3], every_s=DAY_S) == []
    assert missed_nights(runs[:2], night(9, reason="manual"), every_s=DAY_S) == []
