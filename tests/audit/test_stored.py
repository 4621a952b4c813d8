"""An audit as a row: marked as somebody's own, without secrets, found again, and never compared with what suites measure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.audit.stored import load_audit, store_audit
from bench.audit.whole import Audit, put_together
from bench.audited import AUDIT_VERSION, Ended
from bench.errors import SelectionError
from bench.judge.history import runs_at_rest
from bench.judge.sides import earlier_runs, find_sides, nights_before
from bench.records import EXTERNAL, Result, Run, Status, utc_now
from bench.run.resume import demand_measured_here
from bench.store import Store, publish
from tests import factories
from tests.audit.seen import MEMORY, STEPS, audit, report


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "audits.db") as opened:
        yield opened


def keep(store: Store, made: Audit, label: str | None = None) -> tuple[Run, Result]:
    return store_audit(made, store, label=label, started_at=utc_now(), finished_at=utc_now(), duration_s=12.0)


def test_what_is_read_is_what_was_seen(store: Store) -> None:
    made = audit(report(world_size=2), report(rank=1, world_size=2))
    run, row = keep(store, made)
    assert load_audit(store, run.id)[2] == made
    assert load_audit(store, row.id[:20])[0].id == run.id
    assert load_audit(store, "latest")[0].id == run.id
    assert store.check() == []


def test_the_row_says_that_it_is_somebodys_own(store: Store) -> None:
    run, row = keep(store, audit())
    assert (run.reason, row.status, row.method_version) == (EXTERNAL, Status.OK, 0)
    assert row.case.workload == "external:train.py"
    assert row.environment.hard["measured_by"] == EXTERNAL
    assert row.environment.hard["gpu_model"] == "NVIDIA H200"
    assert (row.checks, row.proof) == ((), None)


def test_the_row_holds_the_steps_the_peak_and_the_software_of_the_script(store: Store) -> None:
    _, row = keep(store, audit())
    stored = store.find_result(row.id)
    measured = {(one.metric, one.scope): one.samples for one in stored.measurements}
    assert measured["time_s", "trial"] == STEPS.timed_s
    assert measured["peak_total_bytes", "trial"] == (MEMORY.peak_bytes,)
    assert stored.environment.soft["package:transformers"] == "5.17.0"
    assert stored.case.subject["attention"] == "eager"
    assert (stored.case.params["batch"], stored.case.params["seq_len"]) == (2, 4096)


def test_of_several_ranks_the_slowest_of_each_step_counts(store: Store) -> None:
    slow = dataclasses.replace(STEPS, timed_s=tuple(2 * value for value in STEPS.timed_s))
    made = audit(report(world_size=2), report(rank=1, world_size=2, steps=slow))
    _, row = keep(store, made)
    time = row.measurement("time_s")
    assert time is not None
    assert time.samples == slow.timed_s
    assert row.measurement("time_s", "rank:0") is not None


@pytest.mark.parametrize(
    ("made", "status", "words"),
    [
        (audit(report(ended=Ended("raised", "ValueError", "bad"))), Status.FAILED, "ValueError: bad"),
        (audit(report(ended=Ended("raised", "OutOfMemoryError", "big", out_of_memory=True))), Status.OOM, "OutOfMemoryError"),
        (audit(report(ended=Ended("running")), status=139, exit_words="SIGSEGV"), Status.CRASHED, "SIGSEGV"),
        (audit(report(ended=Ended("finished")), status=3, exit_words="exit status 3"), Status.FAILED, "exit status 3"),
        (audit(report(steps=None, ended=Ended("finished"))), Status.FAILED, "no update"),
        (audit(report(steps=dataclasses.replace(STEPS, timed_s=()))), Status.INVALID, "before an update could be timed"),
        (put_together([], command="true", status=0, ended="exit status 0", steps_asked=20), Status.FAILED, "no update"),
    ],
)
def test_what_did_not_go_well_is_a_row_with_a_reason(store: Store, made: Audit, status: Status, words: str) -> None:
    _, row = keep(store, made)
    assert row.status is status
    assert words in str(row.reason)
    assert (row.measurements == ()) == (status is not Status.INVALID)


def test_secrets_are_in_no_part_of_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "abcdef-very-secret-1")
    bad = report(ended=Ended("raised", "HTTPError", "refused: abcdef-very-secret-1"))
    made = dataclasses.replace(audit(bad), command="python train.py --hub-token hf_abcdefghijklmnop1234")
    run, row = keep(store, made)
    kept = json.dumps([store.find_run(run.id).command, row.reason, row.command, row.conditions])
    assert "[secret]" in kept
    assert "very-secret" not in kept
    assert "hf_abc" not in kept


def test_an_audit_is_never_latest_and_part_of_no_history_night_or_comparison(store: Store) -> None:
    suite = factories.run(suite="external:train.py", label="suite")
    store.add_run(suite)
    store.add_result(factories.result(suite.id))
    run, _ = keep(store, audit(), label="mine")
    later = factories.run(suite="external:train.py", started_at="2099-01-01T00:00:00+00:00")
    store.add_run(later)
    assert store.find_run("latest").id == later.id
    assert run.id not in {one.id for one in runs_at_rest(store, suite=None, last=50)}
    assert run.id not in {one.id for one in nights_before(store, [later], most=50)}
    assert run.id not in {one.id for one in earlier_runs(store, [suite], [later])}
    for word in (run.id, "mine"):
        with pytest.raises(SelectionError, match="bench audit --compare"):
            find_sides(store, "suite", word, now=utc_now())


def test_an_audit_is_neither_published_nor_measured_again(store: Store, tmp_path: Path) -> None:
    run, _ = keep(store, audit())
    with pytest.raises(SelectionError, match="is an audit of somebody's own script"):
        publish(store, [run], tmp_path)
    with pytest.raises(SelectionError, match="type its command again"):
        demand_measured_here(run)


def test_a_run_of_a_suite_is_no_audit(store: Store) -> None:
    with pytest.raises(SelectionError, match="holds no audit yet"):
        load_audit(store, "latest")
    suite = factories.run()
    store.add_run(suite)
    with pytest.raises(SelectionError, match="is no audit but a run of attention"):
        load_audit(store, suite.id)
    with pytest.raises(SelectionError, match="no run has the id or label"):
        load_audit(store, "nothing")


def test_an_audit_of_a_later_version_is_refused_in_words(store: Store) -> None:
    run, row = keep(store, audit())
    later = {**row.conditions["audit"], "version": AUDIT_VERSION + 1}
    newer = dataclasses.replace(run, id="newer")
    store.add_run(newer)
    store.add_result(dataclasses.replace(row, id="row", run_id="newer", conditions={"audit": later}))
    with pytest.raises(SelectionError, match="install a newer bench"):
        load_audit(store, "newer")
