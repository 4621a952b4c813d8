"""Keeps the probe's own mistakes away from the script: what fails is noted for the report, and the script goes on."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

MOST_NOTES = 40


class Notes:
    """Sentences on what could not be seen, each once."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, line: str) -> None:
        if len(self._lines) < MOST_NOTES:
            self._lines[line] = None

    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    @contextlib.contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Notes what is raised within the block instead of passing it on to the script; an end of the process passes."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the boundary between the probe and somebody else's script
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
            self.add(f"{what} could not be seen: {type(error).__name__} at {where}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
