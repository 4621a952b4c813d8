"""Starts Python so that no file of the folder that we happen to stand in can take a package's place.

`python -m` and `python -c` put the current folder first on the path, so a `torch.py` or a `bench.py` that somebody keeps beside his
scripts would be imported instead of the package. `-P` leaves it out; the variable says the same to every Python started below.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import bench


def python(*arguments: str) -> list[str]:
    """The command line of this interpreter, with the current folder kept off the path."""
    return [sys.executable, "-P", *arguments]


def python_environment() -> dict[str, str]:
    """This process's variables with the same for all descendants; an uninstalled `bench` stays importable."""
    found = {**os.environ, "PYTHONSAFEPATH": "1"}
    home = Path(bench.__file__).resolve().parent.parent
    installed = {Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())}
    if home not in installed:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), found.get("PYTHONPATH"))))
    return found
