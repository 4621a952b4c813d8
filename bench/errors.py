"""The errors that a user can fix, and the two refusals that a subject may raise.

Exception
├── BenchError              a user can fix it: one clear message, exit code 2, no traceback
│   ├── SuiteError          mistakes in a suite file or in --set/--filter; holds every one of them
│   ├── SelectionError      nothing, or more than one thing, answers to what was asked for
│   ├── PluginError         a plug-in, an entry point or a kernel's file that cannot be loaded
│   ├── DeviceError         the device asked for is absent, or torch does not see it
│   ├── LockError           another run holds the device and we were told not to wait
│   └── StoreError          the database cannot be read or written, or has another schema
├── HarnessError            our own bug: stops the run, traceback, exit code 2
└── Refusal                 a subject's answer, turned into a status by the worker
    ├── Unavailable         package or device absent, or its import fails
    └── Unsupported         it cannot, by its own declaration or by the library's words
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class BenchError(Exception):
    """Something that the user can fix. Its text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file: where it is, what is wrong, and the nearest valid word if there is one."""

    message: str
    file: str | None = None
    line: int | None = None
    key: str | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f":{self.line}"
        parts = [part for part in (where, self.key) if part]
        text = f"{': '.join(parts)}: {self.message}" if parts else self.message
        return f"{text} (did you mean {self.suggestion!r}?)" if self.suggestion else text


class SuiteError(BenchError):
    """All mistakes of one suite in one message, a line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SelectionError(BenchError):
    """What was asked for matches nothing, or more than one thing where one is needed."""


class PluginError(BenchError):
    """A plug-in or a kernel's file cannot be loaded or declares nothing."""


class DeviceError(BenchError):
    """The device asked for is not there, or torch cannot use it."""


class LockError(BenchError):
    """Another run holds the device."""


class StoreError(BenchError):
    """The database cannot be opened, read or written."""


class HarnessError(Exception):
    """A failure before the subject took over: our bug, never a row."""


class Refusal(Exception):
    """A subject says that it will not run here; the text is the reason that users read."""


class Unavailable(Refusal):
    """The package or device is absent, or importing it fails."""


class Unsupported(Refusal):
    """The subject cannot compute this case."""
