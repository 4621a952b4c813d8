"""A folder of real weights: what it is called in rows, and whether it has what the cases take from it.

A row names the weights by their content and never by a path: `name@hash`, the folder's last part and the beginning of a SHA-256 over all
of its *.safetensors files. So rows of two machines compare, and a folder that has changed is noticed before anything is measured. The
path itself travels beside the cases, in the options of the run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from bench.errors import Problem, SelectionError, SuiteError
from bench.records import Case

if TYPE_CHECKING:
    from bench.catalogue import Catalogue

HASH_DIGITS = 12
SETTING = "weights"
"""The parameter that holds the name, of every workload that can have real weights."""


@runtime_checkable
class TakesWeights(Protocol):
    """A workload that can have real weights."""

    def stored_tensors(self, case: Case) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes of the tensors that the case takes from a folder; none where its weights are random."""


@cache
def weights_name(folder: str) -> str:
    """`name@hash` of a folder. Reads all of it, at the speed of the disk, once a process.

    Raises SelectionError where there is no such folder, or no *.safetensors in it.
    """
    whole = hashlib.sha256()
    for path in _files(folder):
        with path.open("rb") as file:
            whole.update(f"{path.name}:{hashlib.file_digest(file, 'sha256').hexdigest()};".encode())
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(folder).resolve().name)
    return f"{name}@{whole.hexdigest()[:HASH_DIGITS]}"


def weights_setting(folder: str, sets: Iterable[str]) -> tuple[str, ...]:
    """`sets` with the folder's name as the cases' `weights`, unless they name some already, as the command of a row does."""
    given = tuple(sets)
    if any(text.partition("=")[0].strip() in (SETTING, f"sweep.{SETTING}") for text in given):
        return given
    return (*given, f"{SETTING}={weights_name(folder)}")


def demand_weights(cases: Iterable[Case], catalogue: Catalogue, folder: str | None) -> None:
    """Raises SuiteError, with all that is wrong, unless the folder is the one that the cases name and has all of their tensors."""
    wanted: dict[tuple[str, str], tuple[int, ...]] = {}
    for case in cases:
        workload = catalogue.workload(case.workload)
        if isinstance(workload, TakesWeights):
            named = str(case.params.get(SETTING))
            wanted |= {(named, tensor): shape for tensor, shape in workload.stored_tensors(case).items()}
    if not wanted:
        return
    names = sorted({named for named, _ in wanted})
    if folder is None:
        raise SuiteError([Problem(f"{names[0]} is read from a folder: say which one", key="--weights")])
    ours = weights_name(folder)
    if strangers := [name for name in names if name != ours]:
        raise SuiteError([Problem(f"{folder} is {ours}, not {strangers[0]} that the cases name", key="--weights")])
    shapes = _shapes(folder)
    problems = []
    for (_, tensor), shape in wanted.items():
        if tensor not in shapes:
            problems.append(Problem(f"{folder} has no {tensor}", key="--weights"))
        elif shapes[tensor] != shape:
            message = f"{tensor} in {folder} has the shape {shapes[tensor]}, the cases need {shape}: is it another model?"
            problems.append(Problem(message, key="--weights"))
    if problems:
        raise SuiteError(problems)


def _files(folder: str) -> list[Path]:
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise SelectionError(f"--weights: {folder} has no *.safetensors; it takes the folder of a model as Hugging Face stores it")
    return files


def _shapes(folder: str) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor by name, from the files' headers alone."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise SelectionError(
            f"--weights: reading weights needs the package safetensors ({error}): pip install safetensors"
        ) from error
    shapes: dict[str, tuple[int, ...]] = {}
    for path in _files(folder):
        try:
            with safe_open(path, framework="np") as file:
                shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        except SafetensorError as error:
            raise SelectionError(f"--weights: {path} cannot be read: {error}") from error
    return shapes
