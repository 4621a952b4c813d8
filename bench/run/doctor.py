"""Examines everything that a run needs: host, GPU, torch, packages, the worker's process boundary, locks, and the database."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from bench.catalogue import load_catalogue
from bench.errors import BenchError, HarnessError, LockError
from bench.machine import Device, doctor, doctor_gpu, doctor_packages, find_device
from bench.machine.findings import Finding, Severity, ok, problem, warn
from bench.machine.tried import Tried, try_all
from bench.processes import adopting_orphans
from bench.records import Case, Pass, Protocol, RunState, Status, Trial
from bench.run.folders import RunFolder
from bench.run.locks import device_lock, run_is_alive
from bench.run.selftest.session import SEED, SUBJECTS
from bench.run.worker import Worker

SLOW_FORK_S = 0.3
QUICK = Protocol(trials=1, timeout_s=60.0, min_samples=5, max_samples=5, min_sampling_s=0.0, max_sampling_s=1.0, max_warmup_s=0.05)

Look = tuple[str, Callable[[], Iterator[Finding]]]


def examine(choice: str, database: str, *, progress: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """All findings, area by area. What fails in one area is a finding of it and hides no other."""
    findings: list[Finding] = []
    device, found = doctor_gpu.device_finding(choice)
    findings.append(found)
    for area, look in _looks(device, database, progress):
        progress(f"{area} ...")
        findings += guarded(area, look)
    return findings


def _looks(device: Device | None, database: str, progress: Callable[[str], None]) -> list[Look]:
    host = find_device("cpu")
    catalogue = load_catalogue()
    conditions = doctor.conditions_now(device or host)
    kind = "cpu" if device is None else device.kind

    @cache
    def tried() -> Tried:
        def heard(name: str, done: int, of: int) -> None:
            progress(f"  {done} of {of}: {name}")

        packages = doctor_packages.packages_to_try(catalogue)
        progress(f"torch, and whether {len(packages)} packages import beside it ...")
        return try_all(packages, heard=heard)

    def packages() -> Iterator[Finding]:
        yield from doctor_packages.import_findings(tried().imports)
        yield from doctor_packages.availability_findings(catalogue, tried().imports, kind)
        yield from doctor_packages.operator_findings(catalogue, kind)

    looks: list[Look] = [
        ("python", doctor.python_findings),
        ("processor", lambda: doctor.processor_findings(conditions)),
        ("threads", doctor.thread_findings),
        ("memory", doctor.memory_findings),
        ("compilers", lambda: doctor.compiler_findings(kind)),
        ("torch", lambda: doctor_packages.torch_findings(tried().torch, device)),
        ("worker", lambda: worker_findings(host)),
        ("locks", lambda: lock_findings(device or host)),
        ("database", lambda: database_findings(database)),
        ("imports", packages),
    ]
    if device is not None and device.kind == "cuda":
        gpu = device
        looks.insert(0, ("gpu", lambda: doctor_gpu.gpu_findings(gpu, conditions)))
    return looks


def guarded(area: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The area's findings; where it ended early, those before it and the reason."""
    found: list[Finding] = []
    try:
        for finding in look():
            found.append(finding)
    except (BenchError, HarnessError, OSError) as error:
        found.append(problem(area, f"cannot be examined: {error}", "repair what it says"))
    except Exception:  # noqa: BLE001 - our own bug; shown whole, and the other areas are still worth having
        found.append(problem(area, f"a bug in bench: {traceback.format_exc()}", "please report it"))
    return found


def worker_findings(host: Device) -> Iterator[Finding]:
    """Starts a fork server and runs one trial that does nothing on the CPU."""
    folder = RunFolder("doctor-")
    notices: list[str] = []
    worker = Worker(folder.path, host, threads=1, plugins=(str(SUBJECTS),), stop=lambda: False, notice=notices.append)
    try:
        with adopting_orphans():
            trial = Trial(_nothing(), index=0, block=0, position=0)
            began = time.monotonic()
            worker.start(trial)
            started_s = time.monotonic() - began
            measured = worker.measure(trial, QUICK, SEED)
    finally:
        worker.close()
        folder.remove()
    for notice in notices:
        yield warn("worker", notice, "look for what kills processes here: an out-of-memory killer, a limit of a scheduler")
    yield ok("worker", f"the fork server imports torch in {started_s:.1f} s, once a run")
    if measured is None or measured.outcome is None or not measured.answer.phases:
        yield problem("worker", "a trial that does nothing left no answer", "look at the log of this machine for killed processes")
        return
    reply = measured.answer.reply
    if reply.status is not Status.OK:
        yield problem(
            "worker", f"a trial that does nothing is {reply.status}: {reply.reason}", "this torch cannot be measured with"
        )
        return
    fork_s = measured.answer.phases[0].t - measured.outcome.requested
    said = f"a trial's process says its first word {fork_s * 1e3:.0f} ms after it is asked for, and ends after {measured.duration_s:.2f} s"
    yield (
        warn("worker", said, "forks are slow: look for load and for little memory") if fork_s > SLOW_FORK_S else ok("worker", said)
    )


def _nothing() -> Case:
    params = {"elements": 1024, "seconds": 0.0, "first_bytes": 0, "second_bytes": 0, "third_bytes": 0}
    return Case("selftest", 1, {"selftest": "nothing"}, Pass.FORWARD, "fp32", "cpu", "warm", "wall", params)


def lock_findings(device: Device) -> Iterator[Finding]:
    """Takes the device's lock and gives it back."""
    try:
        with device_lock(device.lock_name, run_id="doctor", command="bench doctor", wait=False):
            yield ok("locks", "the device's lock is free and can be taken")
    except LockError as error:
        if " is held by " in str(error):
            yield warn("locks", str(error), "wait for that run: nobody else should measure meanwhile")
        else:
            yield problem("locks", str(error), "without the lock no run starts")


def database_findings(database: str) -> Iterator[Finding]:
    """Where the database lies, what file system that is, whether it is sound, and the room for temporary files."""
    from bench.store import Store
    from bench.store.filesystems import MOUNT_TABLE, file_system_of, shared_file_system
    from bench.store.location import locate

    yield doctor.disk_finding("database", "temporary files in", Path(tempfile.gettempdir()))
    where = locate(database)
    if where.path is not None:
        kind = file_system_of(where.path, MOUNT_TABLE.read_text(errors="surrogateescape"))
        shared = shared_file_system(where.path)
        if shared:
            advice = "SQLite's fast mode is off there; a local disk or PostgreSQL is faster and safer"
            yield warn("database", f"it lies on {shared}, which other machines may share", advice)
        else:
            yield ok("database", f"it lies on a local file system ({kind or 'of unknown type'})")
        yield doctor.disk_finding("database", "database", where.path)
        if not where.path.exists():
            yield ok("database", "there is none yet; the first run makes it")
            return
    with Store.open(database, create=False, read_only=True) as store:
        faults = store.check(running=False)
        runs = store.runs()
    for run in runs:
        if run.state is RunState.RUNNING:
            yield _running(run.id, run.started_at)
    for fault in faults:
        yield problem("database", fault, "bench db export what is there, and import it into a new one")
    if not faults:
        yield ok("database", f"{where.shown} is sound: {len(runs)} runs")


def _running(run_id: str, started_at: str) -> Finding:
    if run_is_alive(run_id):
        return ok("database", f"run {run_id} is being measured (since {started_at})")
    said = f"run {run_id} (started {started_at}) is marked running, and no process of this host works on it"
    return warn("database", said, f"unless another machine measures it: bench run --resume {run_id}")


def exit_code(findings: list[Finding]) -> int:
    """1 where something is a problem."""
    return int(any(finding.severity is Severity.PROBLEM for finding in findings))
