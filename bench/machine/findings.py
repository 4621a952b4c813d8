"""One finding of the doctor: what was looked at, how it stands, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """`warn`: numbers may suffer. `problem`: something does not work."""

    OK = "ok"
    WARN = "warn"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` is there where something can be done."""

    area: str
    severity: Severity
    what: str
    advice: str | None = None


def ok(area: str, what: str) -> Finding:
    return Finding(area, Severity.OK, what)


def warn(area: str, what: str, advice: str) -> Finding:
    return Finding(area, Severity.WARN, what, advice)


def problem(area: str, what: str, advice: str) -> Finding:
    return Finding(area, Severity.PROBLEM, what, advice)
