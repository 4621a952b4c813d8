"""Temporary folders of runs: each says whose it is, and what dead processes left behind is swept when the next run starts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from bench import owned_folders
from bench.errors import BenchError
from bench.owned_folders import OWNER
from bench.records import utc_now

PREFIX = "stepbench-"
_ASKED_BY = ("TMPDIR", "TEMP", "TMP")
"""What Python asks for a temporary folder, in this order."""


class FolderError(BenchError):
    """The temporary folder takes no more, or cannot be used."""


class RunFolder:
    """A folder of this process's own in the temporary folder."""

    def __init__(self, kind: str = "") -> None:
        """`kind` becomes part of the name. Sweeps first. Raises FolderError."""
        _demand_what_was_asked_for()
        try:
            sweep(Path(tempfile.gettempdir()))
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}"))
            told = json.dumps({"pid": os.getpid(), "since": utc_now("seconds")})
            self._owner = owned_folders.claim(self.path, told.encode())
        except OSError as error:
            where = tempfile.tempdir or "the temporary folder"
            raise FolderError(f"{where} cannot be used: {error}; make room there, or set TMPDIR to a folder with some") from error

    def keep(self) -> None:
        """Leaves it on the disk for a person to look at: no sweep takes it."""
        with contextlib.suppress(OSError):
            (self.path / OWNER).unlink()
        os.close(self._owner)

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._owner)


def _demand_what_was_asked_for() -> None:
    """Raises FolderError where Python has passed over the folder that the environment names, and would take another one."""
    name, asked = next(((name, value) for name in _ASKED_BY if (value := os.environ.get(name))), ("", ""))
    if not asked or os.path.abspath(asked) == os.path.abspath(tempfile.gettempdir()):
        return
    try:
        with tempfile.TemporaryFile(dir=asked) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        raise FolderError(f"{name} says {asked}, which cannot be used: {error}; make it, or room in it, or name another") from error


def sweep(temporary: Path) -> list[Path]:
    """Removes folders of runs whose owner is dead and returns them; what is not ours to read is left alone."""
    return owned_folders.sweep(temporary, PREFIX)
