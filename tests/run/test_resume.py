"""Taking up a run again: from another folder, under the locks, and only what has not changed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import LockError, SelectionError
from bench.machine import environment, find_device
from bench.records import RunState, Status
from bench.run import Plan, execute, resume, run_is_alive
from bench.run.locks import run_lock
from bench.run.order import trial_seed
from bench.run.plan import make_plan
from bench.run.resume import _place_of, _start_anew
from bench.run.rows import describe
from bench.store import Store
from bench.suite import expand, parse_filters
from tests import factories
from tests.run.laboratory import Laboratory

pytestmark = pytest.mark.usefixtures("shared_server")


def test_a_run_is_resumed_from_another_folder_than_the_one_its_suite_was_named_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    for words in (
        ["init", "--quiet"],
        ["add", "lab.yaml"],
        ["-c", "user.name=T", "-c", "user.email=t@e.org", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.chdir(tmp_path)
    laboratory.run(dataclasses.replace(laboratory.options, suite_file="lab.yaml", suite_folder=str(tmp_path)))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("/")
    with Store.open(laboratory.database) as store:
        assert store.runs()[0].revision[0].commit is not None
        assert resume("latest", store).exit_code == 0


def test_a_run_that_another_process_is_at_is_not_resumed_beside_it(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    summary = laboratory.run()
    with (
        Store.open(laboratory.database) as store,
        run_lock(summary.run_id, command="bench run on the other GPU"),
        pytest.raises(LockError, match="the other GPU"),
    ):
        resume("latest", store, wait_for_lock=False)


def test_the_plan_is_looked_at_again_once_nobody_else_can_be_at_the_run(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "sdpa_math"])
    laboratory.run()
    plan, suite, catalogue = laboratory.plan()
    seen: list[bool] = []

    def replan(given: Plan) -> Plan:
        seen.append(run_is_alive(run.id))
        return dataclasses.replace(given, trials=given.trials[:1])

    with Store.open(laboratory.database) as store:
        run = store.find_run("latest")
        after = execute(plan, suite, store, find_device("cpu"), catalogue, laboratory.options, resumed=run, replan=replan)
    assert seen == [True]
    assert (after.planned, after.before) == (1, 1)


def test_a_finished_run_that_is_taken_up_again_ended_when_it_did(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["flash_attn2"])
    laboratory.run()
    with Store.open(laboratory.database) as store:
        run = store.find_run("latest")
        assert resume("latest", store).state is RunState.FINISHED
        assert store.find_run("latest") == run


def test_a_row_of_several_ranks_is_known_to_be_from_here(tmp_path: Path) -> None:
    _, suite, _ = Laboratory(tmp_path, ["eager"]).plan()
    device = find_device("cpu")
    here = _place_of(device, suite)
    for world_size in (1, 2):
        row = factories.result(
            of=factories.case(world_size=world_size), environment=environment(device, threads=suite.threads, world_size=world_size)
        )
        assert here(row)
    assert not here(
        factories.result(environment=environment(dataclasses.replace(device, name="Another CPU"), threads=suite.threads))
    )


def test_a_harness_of_another_commit_does_not_go_on_with_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laboratory = Laboratory(tmp_path, ["flash_attn2"])
    laboratory.run()
    # By the module: the package has a function of the same name.
    monkeypatch.setattr(sys.modules["bench.run.resume"], "harness_version", lambda: "0.1.0+g0123456789ab")
    with Store.open(laboratory.database) as store, pytest.raises(SelectionError, match=r"this is 0\.1\.0\+g0123456789ab"):
        resume("latest", store)


def test_the_command_of_an_incorrect_row_gives_the_same_inputs_again_and_that_of_a_good_one_new_ones(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["right", "wrong"], plugins=["right", "wrong"], sweep="seq_len: [16, 32]", seed=77)
    rows = {(row.case.subject_label, row.case.params["seq_len"]): row for row in laboratory.run().results}
    bad, good = rows["wrong", 32], rows["right", 32]
    assert bad.status is Status.INCORRECT, bad.reason
    assert good.status is Status.OK, good.reason
    assert bad.command.endswith(" --seed 77")
    assert "--seed" not in good.command
    filters = ("attention=wrong", "seq_len=32")
    assert all(f"--filter {text}" in bad.command for text in filters)
    options = dataclasses.replace(laboratory.options, filters=filters)
    _, suite, catalogue = laboratory.plan()
    plan = make_plan(suite, expand(suite, catalogue, device="cpu", filters=parse_filters(filters)), options)
    assert [trial_seed(plan.seed, trial) for trial in plan.trials] == [bad.seed]


def test_a_secret_in_an_option_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TEST_TOKEN", "very-secret-0123456789")
    laboratory = Laboratory(tmp_path, ["flash_attn2"])
    laboratory.run(dataclasses.replace(laboratory.options, reason="ask very-secret-0123456789"))
    with Store.open(laboratory.database) as store:
        assert "very-secret" not in repr(store.runs()[0].options)


def test_the_line_of_a_row_shows_every_parameter_that_varies() -> None:
    row = factories.result(
        of=factories.case(params={"model": "tiny", "seq_len": 16, "mask": "sliding_window", "window": 8, "dropout": 0.0})
    )
    assert "model=tiny seq_len=16 mask=sliding_window window=8 #0" in describe(row, ("mask", "window", "dtype"))
    assert "mask" not in describe(row)


def test_a_block_whose_rows_were_set_aside_just_before_a_stop_is_measured_anew_as_a_whole(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "sdpa_math"])
    plan, *_ = laboratory.plan()
    first = plan.trials[0]
    aside = factories.result("run-1", first.case, status=Status.OK, excluded_reason="begun on another device")
    aside = dataclasses.replace(aside, trial=first)
    again, replaced = _start_anew(plan, [aside], [first.key], lambda row: True)
    assert {trial.attempt for trial in again.trials if trial.case.point_key == first.case.point_key} == {1}
    assert replaced == []
    kept = dataclasses.replace(aside, excluded_reason=None)
    again, replaced = _start_anew(plan, [kept], [first.key], lambda row: True)
    assert {trial.attempt for trial in again.trials} == {0}
