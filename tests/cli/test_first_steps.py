"""What a newcomer types: each mistake is answered with what to do, and a suite for a GPU is not begun on a laptop without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cli import night
from bench.cli.brief import Judged
from bench.errors import StoreError
from bench.records import RunState, Status
from bench.run import RunSummary
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench, Filled

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(("options", "told"), [([], True), (["--profile", "cpu"], False), (["--profile", "quick"], False)])
def test_on_a_cpu_a_suite_is_told_to_have_sizes_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, options: list[str], *, told: bool
) -> None:
    monkeypatch.chdir(ROOT)
    said = bench("run", "rms_norm", "rope", *options, "--device", "cpu", "--dry-run", "--db", "none.db")
    assert said.code == 0
    assert ("with sizes for a CPU: bench run rms_norm rope --profile cpu" in said.out) is told


def test_a_suite_is_looked_for_where_there_are_none(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "name a file, or go to the folder of stepbench" in bench("run", "rope").err


def test_a_label_that_is_nearly_right_is_answered_with_the_right_one(bench: Bench, filled: Filled) -> None:
    for command in (["show", "nigthly"], ["report", "nigthly"], ["compare", "nigthly", "latest"]):
        said = bench(*command, "--db", filled.path)
        assert (said.code, "did you mean 'nightly'?" in said.err) == (2, True), command
    assert "did you mean 'latest'?" in bench("show", "lastest", "--db", filled.path).err


def test_a_history_without_any_number_does_not_send_its_reader_in_a_circle(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with Store.open(path) as store:
        run = factories.run()
        store.add_run(run)
        store.add_result(factories.result(run.id, status=Status.OOM))
    said = bench("history", "--db", path)
    assert (said.code, said.err.strip()) == (
        2,
        "bench: no run has a number of a row that is ok yet: `bench show` says how their rows ended",
    )


def test_names_are_found_whatever_their_case(bench: Bench) -> None:
    assert "did you mean 'llama-3-8b'?" in bench("plan", "--model", "LLAMA-3-8B").err


def test_eight_gpus_may_be_called_so(bench: Bench) -> None:
    asked = ("plan", "--model", "llama-3-8b", "--precision", "bf16_pure", "--json")
    assert bench(*asked, "--gpus", "8").out == bench(*asked, "--world-size", "8").out


def test_a_night_whose_files_cannot_be_left_is_refused_before_it_is_measured(bench: Bench, tmp_path: Path) -> None:
    in_the_way = tmp_path / "out"
    in_the_way.write_text("")
    database = tmp_path / "none.db"
    suite = ROOT / "suites" / "rms_norm.yaml"
    said = bench("night", suite, "--profile", "cpu", "--device", "cpu", "--files", in_the_way / "night", "--db", database)
    assert (said.code, "cannot be written" in said.err, "Traceback" in said.err) == (2, True, False)
    assert not database.exists()


def test_what_a_night_can_leave_no_more_at_its_end_is_the_disks_fault_and_not_ours(tmp_path: Path) -> None:
    (tmp_path / "rms_norm.txt").mkdir()
    with pytest.raises(StoreError, match=r"rms_norm\.txt cannot be written"):
        night._leave([Judged("rms_norm", 3, ("no row is ok",))], tmp_path)


def test_a_first_night_says_that_it_learns_to_who_wants_to_see_all_and_to_nobody_else(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, files = tmp_path / "results.db", tmp_path / "files"
    run = factories.run(suite="rms_norm")

    def measured(store: Store, *_: object) -> RunSummary:
        if not store.runs():
            store.add_run(run)
            store.add_result(factories.result(run.id))
        return RunSummary(run.id, RunState.FINISHED, 1, {Status.OK: 1}, ok=1)

    monkeypatch.setattr(night, "_measured", measured)
    words = ("night", ROOT / "suites" / "rms_norm.yaml", "--profile", "cpu", "--device", "cpu", "--db", path)
    why = f"run {run.id} is the first night of suite rms_norm: all is learning, nothing can be judged"
    assert bench(*words, "--verbose").out == f"rms_norm: {why}\n"
    assert bench(*words, "--files", files).out == ""
    assert (files / "rms_norm.txt").read_text() == f"rms_norm: {why}\n"
    (told,) = json.loads(bench(*words, "--json").out)
    assert (told["exit_code"], told["said"], told["judgement"]) == (0, [why], None)


def test_a_plan_needs_no_database_unless_one_is_typed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DB", str(tmp_path / "none.db"))
    said = bench("plan", "--gpu", "h200")
    assert said.code == 0
    assert "costs are by the rule alone: there is no database" in said.err
    assert bench("plan", "--gpu", "h200", "--db", tmp_path / "none.db").code == 2
