"""Turns what a subject raised into a status with a reason: absent, cannot, out of memory, or broken."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb

import torch

import bench.worker
from bench.errors import Unavailable, Unsupported
from bench.records import Status

OUT_OF_MEMORY = re.compile(
    r"DefaultCPUAllocator: (can't allocate memory|not enough memory)|std::bad_alloc|CUDA out of memory|CUDA (driver )?error: out of memory"
    r"|Triton Error \[CUDA\]: out of memory|Cuda failure (\d+ )?'out of memory'|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|Cannot allocate memory"
    r"|^Resource temporarily unavailable$"  # a thread without room for its stack, under the cap on a CPU's memory
)
LONGEST_REASON = 2_000
LONGEST_FACT = 300
LONGEST_TRACEBACK = 16_000
_OWN_FOLDER = str(Path(bench.worker.__path__[0]))


@dataclass(frozen=True, slots=True)
class Failure:
    """A status other than ok, in words."""

    status: Status
    reason: str
    error_type: str | None = None
    traceback: str | None = None


class DisagreesError(Exception):
    """Wrong numbers, or another kernel ran: the trial's own finding, status `incorrect`."""


def out_of_memory(error: BaseException) -> bool:
    """Whether the error, or what led to it, says that memory was not enough."""
    return any(isinstance(e, MemoryError | torch.OutOfMemoryError) or OUT_OF_MEMORY.search(_text(e)) for e in _chain(error))


def first_line(error: BaseException) -> str:
    """The class and the first line of the message, short enough to be one fact among others."""
    return _storable(_reason(error).split("\n", 1)[0], LONGEST_FACT)


def classify(error: BaseException, *, refuses: Iterable[str], building: bool) -> Failure:
    """The status of an exception that ended a trial after the hand-over.

    Args:
        refuses: patterns of library messages that mean "cannot".
        building: whether it came while the subject was imported, built or first called; only then does an ImportError, a shared
            object that cannot be loaded, or whatever else a module raises while it is imported, mean "absent".
    """
    chain = tuple(_chain(error))
    reason = _reason(error)
    error_type = _type_name(error)
    if isinstance(error, DisagreesError):
        return Failure(Status.INCORRECT, str(error))
    if out_of_memory(error):
        return Failure(Status.OOM, reason, error_type)
    for cause in chain:
        if isinstance(cause, Unavailable) or (building and isinstance(cause, ImportError)):
            return Failure(Status.UNAVAILABLE, _reason(cause), _type_name(cause))
        if isinstance(cause, Unsupported | NotImplementedError):
            return Failure(Status.UNSUPPORTED, _reason(cause), _type_name(cause))
    traced = [said for said in map(_said_in_tracing, chain) if said is not None]
    for said in traced:
        if said.kind in _REFUSALS:
            return Failure(Status.UNSUPPORTED, _storable(said.text or said.kind, LONGEST_REASON), said.kind)
    # The innermost words are the library's own; what wraps them repeats them among advice.
    for said in (*traced, *(_Said(_type_name(e), _text(e)) for e in reversed(chain))):
        for pattern in refuses:
            if found := re.search(pattern, said.text):
                return Failure(Status.UNSUPPORTED, _line_around(found), said.kind)
    if building:
        for cause in chain:
            if _came_up_broken(cause):
                return Failure(Status.UNAVAILABLE, _reason(cause), _type_name(cause))
    if traced:
        reason = _storable(f"{traced[0].kind}: {traced[0].text}", LONGEST_REASON)
    return Failure(Status.FAILED, reason, error_type, _trimmed_traceback(error))


_NOT_LOADED = re.compile(
    r"cannot open shared object file|undefined symbol|invalid ELF header|wrong ELF class|version `[^']+' not found|file too short"
)
"""What the dynamic loader says of a library that is missing, or of another version or machine. ctypes passes it on as an OSError."""


def _came_up_broken(error: BaseException) -> bool:
    """Whether a library was missing or broken: the loader says so, or a module raised while it was imported.

    An installed module has a spec; code that a compiler generates and runs has none, and what that raises is no broken installation.
    """
    if isinstance(error, OSError | RuntimeError) and _NOT_LOADED.search(_text(error)):
        return True
    frames = (frame.f_code.co_name == "<module>" and frame.f_globals.get("__spec__") for frame, _ in walk_tb(error.__traceback__))
    return any(spec is not None and spec is not False for spec in frames)


_REFUSALS = ("NotImplementedError", "Unsupported")


@dataclass(frozen=True, slots=True)
class _Said:
    """An exception of which only the class's name and the message are left."""

    kind: str
    text: str


_RAISED = re.compile(r"raised exception (\w+)\((.*)\)\s*$", re.MULTILINE)
_QUOTED = re.compile(r"""(['"])(.*)\1""")


def _said_in_tracing(error: BaseException) -> _Said | None:
    """What the traced code itself raised, where torch.compile followed it into an exception.

    Such an exception never exists as one: dynamo tells it in a message of its own, `raised exception Kind('text')`, whose first line is
    `Observed exception` and which gives advice all around.
    """
    if not type(error).__module__.startswith("torch._dynamo"):
        return None
    found = _RAISED.search(_text(error))
    if found is None:
        return None
    quoted = _QUOTED.search(found.group(2))
    return _Said(found.group(1), quoted.group(2) if quoted else found.group(2))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, nearest first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _text(error: BaseException) -> str:
    # A subject's own exception class may break even this.
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - somebody else's __str__; the class name remains
        return f"<its text cannot be read: {type(broken).__name__}>"


def _reason(error: BaseException) -> str:
    """One paragraph: the class where the message alone says little, and no C++ stack."""
    text = _text(error).split("\nException raised from", 1)[0].strip()
    named = isinstance(error, Unavailable | Unsupported)
    full = text if named and text else f"{type(error).__name__}: {text}" if text else type(error).__name__
    return _storable(full, LONGEST_REASON)


def _line_around(found: re.Match[str]) -> str:
    """What a library said where a pattern met; of many lines only from there to the line's end, since compilers wrap in advice."""
    text = found.string.strip()
    if "\n" in text:
        text = found.string[found.start() :].split("\n", 1)[0].strip(" '\")")
    return _storable(text, LONGEST_REASON)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _trimmed_traceback(error: BaseException) -> str:
    """The traceback from the subject's first frame on: our own frames above it are the same in every row."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frames = frames.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception as broken:  # noqa: BLE001 - formatting calls the subject's __str__ and __repr__
        text = f"{_type_name(error)} (its traceback cannot be shown: {type(broken).__name__})"
    return _storable(text, LONGEST_TRACEBACK)


def _storable(text: str, limit: int) -> str:
    """Valid UTF-8 without NULs, cut in the middle when too long."""
    clean = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(clean) <= limit:
        return clean
    half = (limit - 30) // 2
    return f"{clean[:half]}\n[...]\n{clean[-half:]}"
