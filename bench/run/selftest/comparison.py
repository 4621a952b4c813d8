"""Starts the process that times one call by several timers in turn, and reads what it found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bench.machine import python
from bench.records import Case, Protocol, Request, dump
from bench.run.selftest.session import SEED, NotMeasured, Session

LOOK_EVERY_S = 0.1
LOG_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Comparison:
    """One case by several timers: timer to the median of each round, in seconds; or why a timer has none."""

    seconds: Mapping[str, tuple[float, ...]]
    failed: Mapping[str, str]
    clocks_hz: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Timer to the SM clock of each round; None where it could not be read, nothing on a CPU."""

    def rounds(self, timer: str) -> tuple[float, ...]:
        """Raises NotMeasured where that timer gave nothing, or failed on the way."""
        if timer in self.failed:
            raise NotMeasured(f"{timer}: {self.failed[timer]}")
        found = self.seconds.get(timer)
        if not found:
            raise NotMeasured(f"{timer} gave no time")
        return found


class Comparisons:
    """The process `bench.worker.diagnose`. Entering starts it, so that it imports torch while others measure; leaving ends it.

    Until `ask` it does not touch the device.
    """

    def __init__(self, session: Session, cases: Mapping[str, Case], *, rounds: int, protocol: Protocol) -> None:
        self._session = session
        self._cases = dict(cases)
        self._rounds = rounds
        self._protocol = protocol
        self._folder = session.folder / "comparisons"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Comparisons:
        self._folder.mkdir()
        with (self._folder / "log").open("wb") as log:
            # A session of its own: Ctrl-C is for us, and all that it starts (compilers) can be ended with it.
            self._process = subprocess.Popen(
                python("-m", "bench.worker.diagnose"),
                env=self._session.environment(next(iter(self._cases.values()))),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Ends it, in the middle of its work too: from here on the device is free. Safe to call twice."""
        if self._process is None or self._process.returncode is not None:
            return
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        # Nobody has reaped it yet, so the group's number is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ask(self) -> None:
        """Lets it measure. From here on it has the device; `end` it before measuring anything else."""
        requests = {
            name: dump(
                Request(
                    case,
                    self._protocol,
                    seed=SEED,
                    threads=1,
                    plugins=self._session.plugins,
                    device_index=self._session.device.index,
                    device_uuid=self._session.device.uuid,
                )
            )
            for name, case in self._cases.items()
        }
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("enter it first")
        with contextlib.suppress(BrokenPipeError):  # it is gone; `answer` says why
            self._process.stdin.write(
                json.dumps({"directory": str(self._folder), "rounds": self._rounds, "requests": requests}) + "\n"
            )
            self._process.stdin.flush()

    def answer(self, name: str, timeout_s: float) -> Comparison:
        """What it found of one case. Raises NotMeasured where it failed, ended, or takes too long; KeyboardInterrupt on a signal."""
        deadline = time.monotonic() + timeout_s
        path = self._folder / f"{name}.json"
        while not path.exists():
            if self._session.stop():
                raise KeyboardInterrupt
            if self._ended() and not path.exists():
                raise NotMeasured(f"the process that compares timers ended: {self._log_tail()}")
            if time.monotonic() > deadline:
                raise NotMeasured(f"no answer within {timeout_s:.0f} s")
            time.sleep(LOOK_EVERY_S)
        found = json.loads(path.read_text())
        if found["fault"]:
            raise NotMeasured(str(found["fault"]))
        seconds, clocks_hz = ({timer: tuple(values) for timer, values in found[name].items()} for name in ("seconds", "clocks_hz"))
        return Comparison(seconds, found["failed"], clocks_hz)

    def _ended(self) -> bool:
        """Without reaping it: its number must stay its own until the group is ended."""
        if self._process is None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _log_tail(self) -> str:
        return _tail(self._folder / "log")


def _tail(path: Path) -> str:
    with contextlib.suppress(OSError):
        text = path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return text or "without a word"
    return "without a word"
