"""One audit from the command to the put-together reports."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.audit.running import run_command
from bench.audit.whole import Audit, from_data, put_together
from bench.audited import Audited
from bench.machine.secrets import MASK, looks_secret, scrub, scrub_data
from bench.probing import failures, probe_environment, read_reports
from bench.records import utc_now


@dataclass(frozen=True, slots=True)
class Session:
    """An audit with its times and its files."""

    audit: Audit
    """Without secrets."""
    asked: tuple[int, ...]
    """Signals that came meanwhile."""
    started_at: str
    finished_at: str
    duration_s: float
    troubles: tuple[str, ...] = ()
    """Why reports could not be read, or a probe did not start, a sentence each."""


def audit_command(command: Sequence[str], *, steps: int, stdout: int | None = None) -> Session:
    """Runs `command` with the probe inside until it ends; `steps` updates after which the probe ends it.

    `stdout`: a file descriptor for the command's standard output instead of ours. Raises BenchError where it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="stepbench-audit-") as temporary:
        return _in(Path(temporary), command, steps, stdout)


def _in(folder: Path, command: Sequence[str], steps: int, stdout: int | None) -> Session:
    started_at, began = utc_now(), time.monotonic()

    def stopped() -> bool:
        return any(one.ended.how == "stopped" for one in _reports(folder)[0])

    ended = run_command(command, probe_environment(folder, steps, os.environ), stdout=stdout, stopped=stopped)
    reports, unreadable = _reports(folder)
    raw = put_together(
        reports,
        command=_typed(command),
        status=ended.status,
        ended=ended.words,
        steps_asked=steps,
        left_over=ended.left_over,
    )
    audit = from_data(scrub_data(raw.data()))
    troubles = [f"reports of the probe could not be read: {unreadable}"] if unreadable is not None else []
    troubles += [
        f"a probe did not start: {scrub((text.strip().splitlines() or ['it left no word'])[-1])}" for text in failures(folder)
    ]
    return Session(audit, ended.asked, started_at, utc_now(), time.monotonic() - began, tuple(troubles))


def _typed(command: Sequence[str]) -> str:
    """As for a shell, but for the words after options whose names speak of a secret: quotes and blanks would hide some from a search."""
    shown: list[str] = []
    for before, word in zip(("", *command), command, strict=False):
        option, equals, value = word.partition("=")
        if _names_a_secret(before) and "=" not in before and not word.startswith("-") and not word.isdigit():
            shown.append(MASK)
        elif _names_a_secret(option) and equals and not value.isdigit():
            shown.append(f"{option}={MASK}")
        else:
            shown.append(shlex.quote(word))
    return " ".join(shown)


def _names_a_secret(option: str) -> bool:
    return option.startswith("-") and looks_secret(option.strip("-").replace("-", "_"))


def _reports(folder: Path) -> tuple[list[Audited], str | None]:
    try:
        return list(read_reports(folder)), None
    except ValueError as error:
        return [], str(error)
