"""The folder that states on disk lie in: one an engine, which goes when the trial is over. What dead processes left goes first."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from bench import owned_folders
from bench.declare import Unavailable
from bench.workloads.offload._file import ADVICE, FOLDER_VARIABLE

PREFIX = "stepbench-states-"


class StatesFolder:
    """A folder of this process's own in BENCH_OFFLOAD_DIR, else in the temporary folder. Sweeps first."""

    def __init__(self) -> None:
        """Raises Unavailable, in words, where the place takes no folder or has no locks."""
        place = Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir())
        try:
            place.mkdir(parents=True, exist_ok=True)
            owned_folders.sweep(place, PREFIX)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            self._owner = owned_folders.claim(self.path)
        except OSError as error:
            raise Unavailable(f"{place} takes no folder for states: {error.strerror}; {ADVICE}") from error

    def stored_bytes(self) -> int:
        """Of all its files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._owner)
