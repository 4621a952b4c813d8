from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import StoreError
from bench.machine import find_device
from bench.machine.findings import Finding, Severity, ok
from bench.records import RunState
from bench.run import doctor
from bench.run.locks import device_lock, run_lock
from bench.store import Store
from tests.factories import run


def test_the_fork_server_and_a_trial_are_really_tried() -> None:
    findings = list(doctor.worker_findings(find_device("cpu")))
    assert all(finding.severity is not Severity.PROBLEM for finding in findings), findings
    assert any("first word" in finding.what for finding in findings)


def test_a_held_lock_says_for_whom_to_wait() -> None:
    host = find_device("cpu")
    with device_lock(host.lock_name, run_id="run-1", command="bench run something"):
        (held,) = doctor.lock_findings(host)
    assert held.severity is Severity.WARN
    assert "bench run something" in held.what
    (free,) = doctor.lock_findings(host)
    assert free.severity is Severity.OK


def test_a_lock_that_cannot_be_opened_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LOCK_DIR", str(tmp_path / "locks"))
    (tmp_path / "locks").write_text("in the way")
    (found,) = doctor.lock_findings(find_device("cpu"))
    assert found.severity is Severity.PROBLEM


def test_a_database_is_checked_and_one_that_is_none_is_a_problem(tmp_path: Path) -> None:
    absent = list(doctor.database_findings(str(tmp_path / "none.db")))
    assert absent[-1] == ok("database", "there is none yet; the first run makes it")
    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        store.add_run(run())
    assert "is sound: 1 runs" in list(doctor.database_findings(str(path)))[-1].what
    path.write_bytes(b"this is no database at all" * 1000)
    broken = doctor.guarded("database", lambda: doctor.database_findings(str(path)))
    assert broken[-1].severity is Severity.PROBLEM


def test_a_run_that_is_being_measured_is_no_damage_and_one_that_was_cut_off_is_told_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    made = run(state=RunState.RUNNING, finished_at=None)
    with Store.open(path) as store:
        store.add_run(made)
    with run_lock(made.id, command="bench run a.yaml"):
        alive = [found for found in doctor.database_findings(str(path)) if made.id in found.what]
    assert [(found.severity, "is being measured" in found.what) for found in alive] == [(Severity.OK, True)]
    (dead,) = (found for found in doctor.database_findings(str(path)) if made.id in found.what)
    assert dead.severity is Severity.WARN
    assert f"bench run --resume {made.id}" in (dead.advice or "")


def test_an_area_that_cannot_be_examined_keeps_what_it_found() -> None:
    def look(error: Exception) -> Iterator[Finding]:
        yield ok("area", "first")
        raise error

    for error in (StoreError("no permission"), OSError("no permission"), KeyError("no permission")):
        first, second = doctor.guarded("area", lambda error=error: look(error))  # type: ignore[misc]
        assert first.severity is Severity.OK
        assert second.severity is Severity.PROBLEM
        assert "no permission" in second.what


def test_only_a_problem_fails_the_command() -> None:
    assert doctor.exit_code([ok("a", "x"), Finding("a", Severity.WARN, "x", "y")]) == 0
    assert doctor.exit_code([ok("a", "x"), Finding("a", Severity.PROBLEM, "x", "y")]) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("shared_server")
def test_everything_is_examined_on_this_machine(tmp_path: Path) -> None:
    findings = doctor.examine("cpu", str(tmp_path / "bench.db"))
    areas = {finding.area for finding in findings}
    assert areas >= {"device", "python", "processor", "threads", "memory", "compilers", "torch", "worker", "locks", "database"}
    assert "implementations" in areas
    assert not [finding for finding in findings if "a bug in bench" in finding.what]
    assert all(finding.advice for finding in findings if finding.severity is not Severity.OK)
