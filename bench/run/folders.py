"""Temporary folders of runs: each says whose it is, and what dead processes left behind is swept when the next run starts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path

from bench.errors import BenchError
from bench.records import utc_now

PREFIX = "stepbench-"
OWNER = "owner"
"""The file that a living owner holds locked. Without it a folder is nobody's to sweep: it is kept for a person to look at."""


class FolderError(BenchError):
    """The temporary folder takes no more, or cannot be used."""


class RunFolder:
    """A folder of this process's own in the temporary folder."""

    def __init__(self, kind: str = "") -> None:
        """`kind` becomes part of the name. Sweeps first. Raises FolderError."""
        try:
            sweep(Path(tempfile.gettempdir()))
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}"))
            self._owner = _claim(self.path)
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


def _claim(folder: Path) -> int:
    """Locks the owner's file before it has its name, so that no sweep ever finds one that is not locked yet."""
    unnamed = folder / f"{OWNER}.new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps({"pid": os.getpid(), "since": utc_now("seconds")}).encode())
    unnamed.rename(folder / OWNER)
    return descriptor


def sweep(temporary: Path) -> list[Path]:
    """Removes folders whose owner is dead and returns them; what is not ours to read is left alone."""
    swept = []
    for folder in sorted(temporary.glob(f"{PREFIX}*")):
        try:
            descriptor = os.open(folder / OWNER, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        except OSError:
            continue  # its owner lives
        finally:
            os.close(descriptor)
    return swept
