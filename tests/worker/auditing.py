"""Runs a script with a probe in it, and without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.audited import Audited
from bench.probing import failures, probe_environment, read_reports
from bench.processes import adopting_orphans, descendants

SCRIPTS = Path(__file__).parent / "audit_scripts"
BARE = str(SCRIPTS / "bare.py")
DEADLINE_S = 200


@dataclass(frozen=True, slots=True)
class Ran:
    """A command with a probe, after its end."""

    status: int
    out: str
    err: str
    folder: Path
    reports: list[Audited]

    @property
    def report(self) -> Audited:
        """Of the only process that took steps."""
        (only,) = [report for report in self.reports if report.steps is not None and report.steps.seen]
        return only

    @property
    def ranks(self) -> list[Audited]:
        """Of the processes that took steps."""
        return [report for report in self.reports if report.steps is not None and report.steps.seen]


def settings(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a process that is to be quick beside others."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1", **(more or {})}


def plainly(command: list[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command without a probe."""
    return subprocess.run(
        command, env=settings(variables), capture_output=True, text=True, check=False, timeout=DEADLINE_S, stdin=subprocess.DEVNULL
    )


def audited(folder: Path, command: list[str], *, steps: int = 8, variables: Mapping[str, str] | None = None) -> Ran:
    """A command with a probe that ends it after so many updates. Fails where a probe could not start, or a process is left."""
    folder.mkdir()
    before = {process.pid for process in descendants(os.getpid())}
    with adopting_orphans():
        done = plainly(command, probe_environment(folder, steps, settings(variables)))
        # Whom the probe ended and nobody waited for is a zombie here until this process ends.
        assert [process for process in descendants(os.getpid()) if process.pid not in before and not process.zombie] == []
    assert failures(folder) == []
    return Ran(done.returncode, done.stdout, done.stderr, folder, read_reports(folder))


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, str(SCRIPTS / script), *arguments]
