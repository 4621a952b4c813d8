"""The folder that states on disk lie in: one a process, which goes when the trial is over. What dead processes left goes first."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from bench.workloads.offload._file import FOLDER_VARIABLE

_NAME = "stepbench-states-"


def states_folder() -> Path:
    """Of this process, made where it is not there: in BENCH_OFFLOAD_DIR, else in the temporary folder."""
    place = Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir())
    place.mkdir(parents=True, exist_ok=True)
    for left in place.glob(f"{_NAME}*"):
        number = left.name.removeprefix(_NAME)
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = place / f"{_NAME}{os.getpid()}"
    folder.mkdir(exist_ok=True)
    return folder


def stored_on_disk(folder: Path) -> int:
    """Bytes of its files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def remove(folder: Path) -> None:
    """With all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
