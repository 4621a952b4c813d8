"""Canaries show the machine and answer nothing: not for the exit code, not for the budget, and not in a rerun.

Real ones need a GPU; a small matrix product on the CPU stands for them here.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from bench.errors import SelectionError
from bench.records import Case, Pass, RunState, Status
from bench.run import RunOptions, rerun, resume
from bench.run.canaries import is_canary
from bench.store import Store
from tests.run.laboratory import Laboratory

pytestmark = pytest.mark.usefixtures("shared_server")

CANARY = Case("matmul", 1, {"matmul": "torch_matmul"}, Pass.FORWARD, "fp32", "cpu", "warm", "wall", dict.fromkeys("mnk", 8))


@pytest.fixture(autouse=True)
def _a_canary_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.run.plan.canary_cases", lambda cases: (CANARY,))


def test_a_run_of_which_only_the_canary_is_ok_exits_with_3_also_when_resumed(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["flash_attn2"])
    summary = laboratory.run()
    assert summary.counts == {Status.OK: 1, Status.UNSUPPORTED: 1}
    assert summary.exit_code == 3
    with Store.open(laboratory.database) as store:
        again = resume("latest", store)
    assert (again.before, again.exit_code) == (2, 3)


def test_a_budget_that_the_canary_has_spent_still_measures_the_first_block(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"], sweep="seq_len: [16, 32]")
    ticks = itertools.count(0, 50)
    summary = laboratory.run(dataclasses.replace(laboratory.options, budget_s=1.0), clock=lambda: float(next(ticks)))
    assert [is_canary(row.case, "attention") for row in summary.results] == [True, False]
    assert (summary.state, summary.exit_code) == (RunState.BUDGET, 0)


def test_a_rerun_measures_no_canary_and_neither_does_its_resume(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    rows = laboratory.run().results
    with Store.open(laboratory.database) as store:
        again = rerun(next(row for row in rows if row.case.workload == "attention").id, store)
        assert [row.case.workload for row in again.new] == ["attention"]
        run = store.find_run(again.summary.run_id)
        assert RunOptions.from_data(run.options).canaries is False
        after = resume(run.id, store)
        assert (after.planned, len(after.results)) == (1, 0)


def test_a_canary_cannot_be_measured_alone_and_the_error_says_what_measures_it(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    (row,) = (row for row in laboratory.run().results if row.case == CANARY)
    with Store.open(laboratory.database) as store, pytest.raises(SelectionError, match=r"is a canary.*bench run .*lab\.yaml"):
        rerun(row.id, store)


def test_a_canary_has_five_trials_at_most_and_otherwise_as_many_as_the_rest(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    for trials, of_the_canary in ((3, 3), (20, 5)):
        plan, _, _ = laboratory.plan(dataclasses.replace(laboratory.options, trials=trials))
        assert [trial.case == CANARY for trial in plan.trials] == [True] * of_the_canary + [False] * trials
