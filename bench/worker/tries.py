"""Tries imports side by side, each in a fork of a process that has what trials have; in one more fork torch says what it is and sees.

Started as `python -m bench.worker.tries REQUEST`. The request is JSON: {"modules": [MODULE], "at_a_time": N, "import_s": S, "torch_s": S or
null}; null: torch is neither imported nor asked. Each answer is a line of JSON, as it comes: {"name": MODULE, "seconds": S}, or {"name":
MODULE, "words": WHY}; torch has no name: {"name": "", "facts": what `examine.facts` says}, or {"name": "", "words": WHY}.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from bench.processes import die_with_parent, flush_c_streams

POLL_S = 0.01


@dataclass(slots=True)
class Try:
    """One fork. Its answer and what it printed are files without a name."""

    name: str
    work: Callable[[], dict[str, Any]]
    limit_s: float
    pid: int = 0
    ends: float = 0.0
    """When it is killed, as the monotonic clock counts."""
    answer: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def start(self) -> None:
        """Forks. The child leaves this session, so that all it starts can be ended with it."""
        self.ends = time.monotonic() + self.limit_s
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            die_with_parent()
            for number in (1, 2):
                os.dup2(self.log.fileno(), number)
            try:
                found = self.work()
            except BaseException as error:  # noqa: BLE001 - whatever it is, SystemExit too, is what the package says
                found = {"words": " ".join("".join(traceback.format_exception_only(error)).split())}
            self.answer.write(json.dumps(found).encode())
            self.answer.flush()
            flush_c_streams()
            os._exit(0)

    def ended(self) -> dict[str, Any] | None:
        """Its answer; None while it is at work."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0 and time.monotonic() < self.ends:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if pid == 0:
            os.waitpid(self.pid, 0)
            return {"name": self.name, "words": f"no answer within {self.limit_s:g} s"}
        self.answer.seek(0)
        said = self.answer.read()
        return {"name": self.name, **(json.loads(said) if said else {"words": self._last_words(status)})}

    def _last_words(self, status: int) -> str:
        if os.WIFSIGNALED(status):
            return f"the import was killed by signal {os.WTERMSIG(status)}"
        self.log.seek(0)
        lines = [line for line in self.log.read().decode(errors="replace").splitlines() if line and not line.startswith(" ")]
        return lines[-1] if lines else f"ended with status {os.waitstatus_to_exitcode(status)} without a word"


def imported(module: str) -> dict[str, Any]:
    """How long the import took."""
    began = time.perf_counter()
    importlib.import_module(module)
    return {"seconds": time.perf_counter() - began}


def asked() -> dict[str, Any]:
    """What torch says."""
    from bench.worker.examine import facts

    return {"facts": facts()}


def _share() -> None:
    """Imports what the fork server has imported before its first fork."""
    from bench.worker.server import ALLOWED

    for module in ALLOWED:
        importlib.import_module(module)


def answer(request: dict[str, Any]) -> None:
    """All tries, a few at a time."""
    if request["torch_s"] is not None:
        # What fails here fails in the forks that need it, and they say so.
        with contextlib.suppress(Exception):
            _share()
    waiting = [] if request["torch_s"] is None else [Try("", asked, request["torch_s"])]
    waiting += [Try(name, lambda name=name: imported(name), request["import_s"]) for name in request["modules"]]  # type: ignore[misc]
    running: list[Try] = []
    while waiting or running:
        while waiting and len(running) < request["at_a_time"]:
            running.append(waiting.pop(0))
            running[-1].start()
        time.sleep(POLL_S)
        for one in list(running):
            if (found := one.ended()) is not None:
                running.remove(one)
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    answer(json.loads(sys.argv[1]))
