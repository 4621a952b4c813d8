"""Sends a probe along with a command that somebody trains with, and reads what it reports. The command itself is not changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.audited import Audited
from bench.records import load_json

FOLDER_VARIABLE = "BENCH_AUDIT_FOLDER"
STEPS_VARIABLE = "BENCH_AUDIT_STEPS"
SHIM = Path(__file__).parent / "worker" / "audit" / "shim"
"""Holds a `sitecustomize`, which every Python imports that starts with this folder in PYTHONPATH and without `-S`, `-E` and `-I`."""


def probe_environment(folder: Path, steps: int, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` for a command whose processes shall report into `folder` and end after `steps` updates of their weights."""
    path = environment.get("PYTHONPATH")
    return {
        **environment,
        "PYTHONPATH": f"{SHIM}{os.pathsep}{path}" if path else str(SHIM),
        FOLDER_VARIABLE: str(folder.resolve()),
        STEPS_VARIABLE: str(steps),
    }


def read_reports(folder: Path) -> list[Audited]:
    """What the processes reported, by rank and then in the order in which they were started.

    Raises ValueError where a file is none of a probe's.
    """
    reports = [load_json(Audited, path.read_bytes()) for path in folder.glob("*.json")]
    return sorted(reports, key=lambda report: (report.rank, report.started_s))


def failures(folder: Path) -> list[str]:
    """Tracebacks of probes that could not start; the script ran without one then."""
    return [path.read_text(errors="replace") for path in sorted(folder.glob("no-probe-*.txt"))]
