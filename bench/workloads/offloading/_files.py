"""The folder that states on disk lie in: one an engine, which goes when the trial is over. What dead processes left goes first.

Who lives is told by the lock on a file in the folder: it ends with its process, however that ends. A process number would not do, since
somebody else may have it by then, and in another container it says nothing. Sweeps of runs know the same file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from bench.declare import Unavailable
from bench.workloads.offload._file import ADVICE, FOLDER_VARIABLE

PREFIX = "stepbench-states-"
OWNER = "owner"
"""The empty file that a living owner holds locked."""


class StatesFolder:
    """A folder of this process's own in BENCH_OFFLOAD_DIR, else in the temporary folder. Sweeps first."""

    def __init__(self) -> None:
        """Raises Unavailable, in words, where the place takes no folder or has no locks."""
        place = Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir())
        try:
            place.mkdir(parents=True, exist_ok=True)
            sweep(place)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            self._owner = _claim(self.path)
        except OSError as error:
            raise Unavailable(f"{place} takes no folder for states: {error.strerror}; {ADVICE}") from error

    def stored_bytes(self) -> int:
        """Of all its files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._owner)


def sweep(place: Path) -> list[Path]:
    """Removes the folders whose owner is dead, and returns them. One without a lock file is nobody's to sweep."""
    swept = []
    for folder in sorted(place.glob(f"{PREFIX}*")):
        try:
            descriptor = os.open(folder / OWNER, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, being made, or not ours to read
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        except BlockingIOError:
            continue  # its owner lives
        finally:
            os.close(descriptor)
    return swept


def _claim(folder: Path) -> int:
    """Locks the file before it has its name, so that no sweep finds one that is not locked yet."""
    unnamed = folder / f"{OWNER}.new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unnamed.rename(folder / OWNER)
    return descriptor
