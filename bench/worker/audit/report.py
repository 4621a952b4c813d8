"""The report of this process: begun as one that knows nothing yet, and written anew whenever more is known."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from bench.audited import AUDIT_VERSION, Audited, Device, Ended
from bench.worker.audit import asked
from bench.worker.audit.sharing import ranks

LONGEST_MESSAGE = 500


def nothing_yet() -> Audited:
    """What a process begins with."""
    return Audited(
        version=AUDIT_VERSION, pid=os.getpid(), rank=0, world_size=1, script="", launched_by=(), versions={}, frameworks=(), asked={},
        environment={}, ended=Ended("running"), started_s=time.time(),
    )  # fmt: skip


class Report:
    """The file of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rank, self._ranks = 0, 1
        self._path: Path | None = None

    def write(self, known: Audited, ended: Ended, notes: tuple[str, ...]) -> None:
        """Replaces what was written before, all or nothing."""
        self._rank, self._ranks = max(ranks(), (self._rank, self._ranks), key=lambda pair: pair[1])  # a script may leave its group
        if self._ranks == 1:
            self._rank, self._ranks = _told("RANK", 0), _told("WORLD_SIZE", 1)
        made = replace(
            known,
            rank=self._rank,
            world_size=self._ranks,
            script=os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("-c", "-m") else "",
            launched_by=asked.launched_by(),
            versions=asked.versions(),
            environment=asked.variables(),
            ended=replace(ended, at_s=time.time()),
            notes=notes,
        )
        path = self._folder / f"{self._rank}-{os.getpid()}.json"
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps(asdict(made), default=_last_resort))
        draft.replace(path)
        if self._path is not None and self._path != path:
            self._path.unlink(missing_ok=True)
        self._path = path


def _told(variable: str, otherwise: int) -> int:
    """By a launcher; a variable of this name that is no number is somebody else's."""
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else otherwise


def device_of(tensors: list[torch.Tensor]) -> Device:
    """Where most of the parameters are; the GPU where any of them is on one."""
    if any(tensor.is_cuda for tensor in tensors) or torch.cuda.is_initialized():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return Device(properties.name, "cuda", f"{properties.major}.{properties.minor}")
    return Device("cpu", "cpu", threads=torch.get_num_threads())


def raised() -> Ended | None:
    """What nobody caught, if that is why the process ends: Python keeps it while it leaves."""
    error: Any = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return None if error is None else describe_error(error)


def describe_error(error: BaseException) -> Ended:
    message = str(error).strip().partition("\n")[0][:LONGEST_MESSAGE]
    how = "interrupted" if isinstance(error, KeyboardInterrupt) else "raised"
    out_of_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return Ended(how, type(error).__name__, message, out_of_memory)


def _last_resort(value: Any) -> str:
    """Of what is no JSON: a config may hold anything."""
    return str(value)
