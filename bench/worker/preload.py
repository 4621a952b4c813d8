"""Imports in the fork server what many trials of a run import alike, once it is known that this does no harm.

Packages as large as transformers take seconds to import, ten and more where the disk is slow, and each trial would pay for them anew. But
many of them start threads or touch CUDA when they are imported, which would poison every child, and which of them does so changes from
release to release. So it is not believed but tried: a child imports them first. It must have one thread afterwards, torch must not have
initialised CUDA, and where trials run on CUDA a child of its own must be able to compute there. Only then the server does the same.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from bench.processes import die_with_parent

REHEARSAL_LIMIT_S = 25
"""After which the rehearsal is given up: the parent waits a minute for a fork, and what a child could import is imported once more."""
FEWEST = 3
"""Trials with the same imports, this one among them, from which on they are imported here: one is a rehearsal, one for good."""


class Preloads:
    """What the trials so far imported, and what of it the server has imported or must not import."""

    def __init__(self, unfit: Callable[[], str | None]) -> None:
        """`unfit` says why this process must not be forked, or None."""
        self._unfit = unfit
        self._asked: dict[tuple[str, ...], int] = {}
        self.refused: dict[tuple[str, ...], str] = {}
        """Modules to the reason why they are left to the trials."""

    def offer(self, modules: Sequence[str], device_index: int | None) -> None:
        """Told before each fork what the trial will import; `device_index` is that of its GPU, None on a CPU."""
        wanted = tuple(modules)
        self._asked[wanted] = self._asked.get(wanted, 0) + 1
        if self._asked[wanted] < FEWEST or wanted in self.refused or all(name in sys.modules for name in wanted):
            return
        reason = rehearse(wanted, self._unfit, device_index)
        if reason is None:
            for name in wanted:
                importlib.import_module(name)
        else:
            self.refused[wanted] = reason
            print(f"left to the trials: {', '.join(wanted)}: {reason}", flush=True)


def rehearse(modules: Sequence[str], unfit: Callable[[], str | None], device_index: int | None) -> str | None:
    """Why the modules must not be imported in this process, or None. A child finds it out."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(REHEARSAL_LIMIT_S)
            os.write(writer, (_tried(modules, unfit, device_index, writer) or "fit").encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if not answer:
        code = os.waitstatus_to_exitcode(status)
        return (
            f"a child that imported them was ended by {signal.Signals(-code).name}"
            if code < 0
            else "a child that imported them ended"
        )
    return None if answer == "fit" else answer


def _tried(modules: Sequence[str], unfit: Callable[[], str | None], device_index: int | None, answers: int) -> str | None:
    try:
        for name in modules:
            importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - whatever a package raises when it is imported is its trials' to tell
        return f"{type(error).__name__}: {error}"
    reason = unfit()
    if reason is not None or device_index is None:
        return reason
    return None if _a_child_can_compute(device_index, answers) else "a child that is forked after their import cannot use CUDA"


def _a_child_can_compute(device_index: int, answers: int) -> bool:
    """Whether it can. One that hangs goes with us, and does not keep the pipe `answers` open, whose end the server waits for."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            die_with_parent()
            os.close(answers)
            import torch

            code = int(torch.ones(8, device=f"cuda:{device_index}").sum().item() != 8)
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0
