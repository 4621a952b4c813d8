"""A run from its first row to its last: budget, Ctrl-C, a full disk, two runs at once, and taking up again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from bench.errors import HarnessError, LockError, SelectionError, StoreError
from bench.machine import ConditionsSampler, Device, find_device
from bench.processes import descendants
from bench.records import RunState, Status, dump
from bench.run import Progress, rerun, resume
from bench.run.locks import StillHeldError, device_lock
from bench.run.resume import _go_on
from bench.run.worker import Measured, Worker
from bench.store import Store
from tests.run.laboratory import QUICK, Laboratory, command_line, marked

pytestmark = pytest.mark.usefixtures("shared_server")

_TWO = QUICK.replace("trials: 1", "trials: 2")
_MANY = QUICK.replace("trials: 1", "trials: 8")


def _parent(folder: Path, subjects: str, plugins: str = "", protocol: str = QUICK, *more: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "tests.run.laboratory", str(folder), subjects, plugins, protocol, *more]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _lines(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _await_grandchild(process: subprocess.Popen[str], marker: Path, known: frozenset[int] = frozenset()) -> frozenset[int]:
    """Until the subject `hangs` has started a child that is not known; all that are."""
    while not (new := {found.pid for found in marked(str(marker)) if b"time.sleep(600)" in command_line(found)} - known):
        assert process.poll() is None
        time.sleep(0.1)
    return known | new


def _gone(marker: Path, patience_s: float = 20.0) -> bool:
    deadline = time.monotonic() + patience_s
    while marked(str(marker)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_rows_are_stored_one_by_one_as_the_summary_and_the_progress_say(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "flash_attn2"], protocol=_TWO, sweep="seq_len: [16, 32]")
    stored: list[int] = []
    told: list[Progress] = []

    def progress(said: Progress) -> None:
        told.append(said)
        with Store.open(laboratory.database, read_only=True) as store:
            stored.append(len(store.results([store.runs()[0].id])))

    summary = laboratory.run(progress=progress)
    assert stored == list(range(1, 9))
    assert [said.done for said in told] == list(range(1, 9))
    assert told[-1].left_s == 0
    assert summary.exit_code == 0
    with Store.open(laboratory.database) as store:
        run = store.find_run(summary.run_id)
        rows = store.results([run.id])
        assert store.check() == []
    assert run.state is RunState.FINISHED
    assert run.planned_trials == len(rows) == 8
    assert [(row.trial.block, row.trial.position) for row in rows] == [
        (block, position) for block in (0, 1) for position in range(4)
    ]
    for row in rows:
        metric = "compile_cold_s" if row.trial.index == 0 else "compile_warm_s"
        if row.case.subject_label == "eager":
            assert row.status is Status.OK
            assert row.measurement(metric) is not None
        else:
            assert row.status is Status.UNSUPPORTED
            assert row.reason == "flash_attn2 runs on cuda, not on cpu"
    assert len({row.environment.soft_hash for row in rows if row.status is Status.OK}) == 1


def test_a_row_is_stored_while_the_next_trial_is_forked_and_before_that_takes_its_device(
    tmp_path: Path, own_temporary_folder: Path
) -> None:
    reached: list[list[str]] = []

    def progress(said: Progress) -> None:
        if said.done == 2:
            return  # the last of its block: no trial follows
        late = time.monotonic() + 60
        while not any('"gate"' in path.read_text() for path in own_temporary_folder.glob("stepbench-*/trial-*2/phases.jsonl")):
            assert time.monotonic() < late
            time.sleep(0.01)
        time.sleep(0.2)
        (phases,) = own_temporary_folder.glob("stepbench-*/trial-*2/phases.jsonl")
        reached.append([json.loads(line)["phase"] for line in phases.read_text().splitlines()])

    summary = Laboratory(tmp_path, ["eager"], protocol=_TWO).run(progress=progress)
    assert reached == [["started", "handover", "import", "gate"]]
    assert summary.counts == {Status.OK: 2}


def test_a_row_is_stored_whatever_becomes_of_the_next_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laboratory = Laboratory(tmp_path, ["eager"], protocol=_TWO)
    measure = Worker.measure
    calls: list[int] = []

    def quit_at_the_second(self: Worker, *arguments: Any) -> Measured | None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt  # a second Ctrl-C
        return measure(self, *arguments)

    monkeypatch.setattr(Worker, "measure", quit_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        laboratory.run()
    with Store.open(laboratory.database) as store:
        (run,) = store.runs()
        assert [row.status for row in store.results([run.id])] == [Status.OK]
        assert len(resume(run.id, store).results) == 1


def test_a_trial_thrown_away_for_heat_leaves_checks_proof_and_cold_compile_time_to_the_one_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = ConditionsSampler.summary
    trials: list[int] = []

    def hot_at_first(sampler: ConditionsSampler) -> dict[str, object]:
        trials.append(1)
        heat = {"throttle_share": {"hw_thermal_slowdown": 1.0}} if len(trials) == 1 else {}
        return {**summary(sampler), **heat}

    monkeypatch.setattr(ConditionsSampler, "summary", hot_at_first)
    monkeypatch.setattr("bench.run.limits.PAUSES_S", (0.0,))
    first, second = Laboratory(tmp_path, ["eager"], protocol=_TWO).run().results
    assert first.conditions["discarded_trials"] == 1
    assert {check.at for check in first.checks} >= {"small", "measured"}
    assert first.proof is not None
    assert first.measurement("compile_cold_s") is not None
    assert {check.at for check in second.checks} == {"finite"}
    assert second.measurement("compile_cold_s") is None
    assert len(trials) == 3


def test_a_run_of_which_no_row_is_ok_exits_with_3_and_needs_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a server")

    monkeypatch.setattr("bench.run.worker.ForkServer", started)
    summary = Laboratory(tmp_path, ["flash_attn2", "sdpa_cudnn"]).run()
    assert summary.exit_code == 3
    assert summary.counts == {Status.UNSUPPORTED: 2}
    assert all(row.measurements == () for row in summary.results)


def test_the_budget_stops_between_blocks_and_resume_measures_the_rest(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "sdpa_math"], sweep="seq_len: [16, 32, 64]")
    ticks = itertools.count(0, 50)
    options = dataclasses.replace(laboratory.options, budget_s=75.0)
    summary = laboratory.run(options, clock=lambda: float(next(ticks)))
    assert summary.state is RunState.BUDGET
    assert summary.exit_code == 0
    assert len(summary.results) in (2, 4)
    with Store.open(laboratory.database) as store:
        after = resume("latest", store)
        assert after.run_id == summary.run_id
        assert after.state is RunState.FINISHED
        assert len(after.results) + len(summary.results) == len(store.results([after.run_id])) == 6
        again = resume("latest", store)
        assert again.results == ()
        assert again.exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_trial_in_progress_without_a_row_and_resume_completes(
    tmp_path: Path, own_temporary_folder: Path, number: signal.Signals
) -> None:
    with _parent(tmp_path, "eager sdpa_math", protocol=_MANY) as process:
        for _ in range(3):
            assert "ok" in _lines(process).readline()
        process.send_signal(number)
        output = _lines(process).read()
        assert process.wait(60) == 130, output
    assert _gone(own_temporary_folder)
    assert list(own_temporary_folder.iterdir()) == []
    with Store.open(tmp_path / "bench.db") as store:
        (run,) = store.runs()
        rows = store.results([run.id])
        assert run.state is RunState.INTERRUPTED
        assert 3 <= len(rows) < 16
        assert {row.status for row in rows} == {Status.OK}
        summary = resume(run.id, store)
        assert (summary.before, len(summary.results)) == (len(rows), 16 - len(rows))
        assert store.find_run(run.id).state is RunState.FINISHED
        assert len(store.results([run.id])) == 16


def test_a_second_ctrl_c_quits_at_once_and_leaves_nothing_running(tmp_path: Path, own_temporary_folder: Path) -> None:
    with _parent(tmp_path, "hangs", "hangs") as process:
        _await_grandchild(process, own_temporary_folder)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _lines(process).read()
        process.wait(60)
    assert _gone(own_temporary_folder)


@pytest.mark.parametrize("role", ["parent", "server"])
def test_a_hanging_grandchild_of_a_killed_parent_or_server_is_gone(tmp_path: Path, own_temporary_folder: Path, role: str) -> None:
    known: frozenset[int] = frozenset()
    with _parent(tmp_path, "hangs", "hangs") as process:
        for _ in range(1 if role == "parent" else 2):
            known = _await_grandchild(process, own_temporary_folder, known)
            # What a killed server leaves behind is the parent's child for a while.
            (server,) = [
                child
                for child in descendants(process.pid)
                if b"bench.worker.server" in command_line(child) and child.parent == process.pid
            ]
            os.kill(process.pid if role == "parent" else server.pid, signal.SIGKILL)
        output = _lines(process).read()
        process.wait(60)
    assert _gone(own_temporary_folder)
    if role == "server":
        assert process.returncode == 3
        assert "crashed: the fork server ended with signal 9; so it was the second time" in output


def test_two_runs_at_once_on_one_database_take_turns_and_lose_nothing(tmp_path: Path) -> None:
    with _parent(tmp_path, "eager sdpa_math", protocol=_TWO) as one, _parent(tmp_path, "eager sdpa_math", protocol=_TWO) as two:
        outputs = [_lines(process).read() for process in (one, two)]
        assert [one.wait(60), two.wait(60)] == [0, 0], outputs
    assert "waiting for cpu, held by process" in "".join(outputs)
    with Store.open(tmp_path / "bench.db") as store:
        assert store.check() == []
        assert [len(store.results([run.id])) for run in store.runs()] == [4, 4]


def test_a_run_that_may_not_wait_says_who_holds_the_device_and_stores_nothing(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    options = dataclasses.replace(laboratory.options, wait_for_lock=False)
    with device_lock("cpu", run_id="other", command="bench run other.yaml"), pytest.raises(LockError, match=r"other\.yaml"):
        laboratory.run(options)
    with Store.open(laboratory.database) as store:
        assert store.runs() == []


def test_a_run_with_a_budget_waits_no_longer_than_that_for_its_device(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    options = dataclasses.replace(laboratory.options, budget_s=5.0)
    ticks = itertools.count(0, 3)
    with device_lock("cpu", run_id="other", command="bench run other.yaml"), pytest.raises(StillHeldError, match=r"other\.yaml"):
        laboratory.run(options, clock=lambda: float(next(ticks)))
    assert next(ticks) == 9  # when it began, and twice while it waited
    with Store.open(laboratory.database) as store:
        assert store.runs() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2M", "none", str(folder)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_up_stops_the_run_with_an_error_loses_nothing_and_resume_completes(small_disk: Path) -> None:
    laboratory = Laboratory(small_disk, ["eager", "sdpa_math"], protocol=_TWO)

    def fill_up(said: Progress) -> None:
        if said.done == 2:
            with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)

    with pytest.raises(StoreError, match=r"2 of 4 rows are stored[\s\S]*bench run --resume"):
        laboratory.run(progress=fill_up)
    (kept,) = Path(tempfile.gettempdir()).glob("stepbench-*/trial-*/result.json")
    assert kept.stat().st_size > 0
    (small_disk / "ballast").unlink()
    with Store.open(laboratory.database) as store:
        assert len(store.results([store.runs()[0].id])) == 2
        assert len(resume("latest", store).results) == 2
        assert store.check() == []


def test_a_row_of_a_trial_that_was_not_started_and_cannot_be_stored_is_kept_and_no_files_are_promised(
    tmp_path: Path, own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "add_result", full)
    with pytest.raises(StoreError, match=r"the disk is full\nThe row [\s\S]*0 of 1 rows are stored") as caught:
        Laboratory(tmp_path, ["flash_attn2"]).run()
    (kept,) = own_temporary_folder.glob("stepbench-*/result.json")
    assert f"is kept as {kept}; its trial was not started." in str(caught.value)
    assert json.loads(kept.read_text())["status"] == "unsupported"
    assert not list(kept.parent.glob("trial-*"))


HOSTILE = ("<script>alert('x')</script> \"quotes\" \N{ROCKET} {{ 7 * 7 }} %s \\ ; DROP TABLE run; -- " * 4)[:300]


def test_a_hostile_name_goes_through_a_run_and_comes_back_as_it_was(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"], name=HOSTILE)
    options = dataclasses.replace(laboratory.options, label=HOSTILE)
    summary = laboratory.run(options)
    with Store.open(laboratory.database) as store:
        run = store.find_run(HOSTILE)
        assert run.id == summary.run_id
        assert run.suite == run.label == HOSTILE
        assert store.results([run.id])[0].status is Status.OK
        assert len(rerun(summary.results[0].id, store).new) == 1


def test_our_own_failure_before_the_subject_takes_over_stops_the_run_as_broken_and_keeps_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])

    def spoil_the_request(record: object) -> object:
        data = dump(record)
        return {**data, "case": 7} if "cold_caches" in data else data

    monkeypatch.setattr("bench.run.worker.dump", spoil_the_request)
    with pytest.raises(
        HarnessError, match=r"our own code failed[\s\S]*files are kept in[\s\S]*--resume \S+ \(with the same --db\)"
    ):
        laboratory.run()
    assert list(Path(tempfile.gettempdir()).glob("stepbench-*/trial-*/harness_error"))
    with Store.open(laboratory.database) as store:
        assert store.runs()[0].state is RunState.BROKEN
        assert store.results([store.runs()[0].id]) == []


def test_resume_refuses_a_run_whose_plugin_has_changed_since(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["right"], plugins=["right"])
    laboratory.run()
    with Path(laboratory.options.plugins[0]).open("a") as file:
        file.write("# faster now\n")
    with Store.open(laboratory.database) as store, pytest.raises(SelectionError, match="has changed since"):
        resume("latest", store)


def test_on_another_device_an_unfinished_block_starts_anew_and_a_finished_one_stays(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "sdpa_math"], sweep="seq_len: [16, 32]")
    stop_after = 3

    def interrupt(said: Progress) -> None:
        if said.done == stop_after:
            os.kill(os.getpid(), signal.SIGINT)

    first = laboratory.run(progress=interrupt)
    assert first.state is RunState.INTERRUPTED
    assert len(first.results) == stop_after
    here = find_device("cpu")
    other = Device(**{name: getattr(here, name) for name in here.__slots__} | {"name": "Another CPU"})
    plan, suite, catalogue = laboratory.plan()
    with Store.open(laboratory.database) as store:
        run = store.find_run("latest")
        after = _go_on(run, plan, suite, store, other, catalogue, laboratory.options, lambda _said: None, time.monotonic)
        rows = store.results([run.id])
        everything = store.results([run.id], include_excluded=True)
    assert len(after.results) == 2
    assert len(rows) == 4
    assert sorted(row.trial.attempt for row in rows) == [0, 0, 1, 1]
    (excluded,) = [row for row in everything if row.excluded_reason]
    assert "another device" in (excluded.excluded_reason or "")
    for block in (0, 1):
        assert len({row.environment.hard_hash for row in rows if row.trial.block == block}) == 1


def test_a_row_can_be_measured_again_in_a_run_of_its_own_beside_the_old_one(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "sdpa_math"], protocol=_TWO, sweep="seq_len: [16, 32]")
    summary = laboratory.run()
    row = next(row for row in summary.results if row.case.subject_label == "sdpa_math")
    with Store.open(laboratory.database) as store:
        again = rerun(row.id, store, trials=3)
        run = store.find_run(again.summary.run_id)
    assert run.parent_run_id == summary.run_id
    assert [new.case.key for new in again.new] == [row.case.key] * 3
    assert len(again.old) == 2
    assert again.old_medians["time_s"] > 0
    assert again.new_medians["time_s"] > 0
    assert again.old_medians["peak_bytes"] == again.new_medians["peak_bytes"]
    assert "overhead_s" not in again.new_medians


def test_a_run_started_outside_the_main_thread_works_and_touches_no_signal_handler(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["eager"])
    before = signal.getsignal(signal.SIGINT)
    summaries = []
    thread = threading.Thread(target=lambda: summaries.append(laboratory.run()))
    thread.start()
    thread.join()
    assert summaries[0].counts == {Status.OK: 1}
    assert signal.getsignal(signal.SIGINT) is before


def test_the_parent_imports_neither_torch_nor_numpy() -> None:
    code = "import sys, bench.run; print(sorted({'torch', 'numpy', 'pandas', 'sqlalchemy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
