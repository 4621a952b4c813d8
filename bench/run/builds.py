"""Operators that must be compiled before a trial can use them: compiled outside of trials, once a run, under a time-out of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.catalogue import Catalogue, load_catalogue
from bench.machine.interpreter import python
from bench.records import Case

BUILD_TIMEOUT_S = 1800.0
_LOOK_EVERY_S = 0.2
_LAST_LINES = 3


class Builds:
    """Compiles what cases need, each operator at most once."""

    def __init__(self, folder: Path, plugins: tuple[str, ...], *, stop: Callable[[], bool], notice: Callable[[str], None]) -> None:
        """`folder` gets the compilers' output."""
        self._folder = folder
        self._plugins = plugins
        self._stop = stop
        self._notice = notice
        self._catalogue: Catalogue | None = None
        self._troubles: dict[tuple[str, str], str | None] = {}

    def may_take_long(self, case: Case) -> bool:
        """Whether `trouble` compiles something for this case that it has not tried yet."""
        device = case.hardware
        return any((device, name) not in self._troubles for name in self._needed(case))

    def trouble(self, case: Case, environment: Mapping[str, str]) -> str | None:
        """Why an operator that this case needs cannot be had, in words; None where all are there, or we were asked to stop."""
        device = case.hardware
        for name in self._needed(case):
            if (device, name) not in self._troubles:
                self._notice(f"compiling {name} for {device}, once on this machine; it may take minutes")
                self._troubles[device, name] = self._build(device, name, environment)
            if (found := self._troubles[device, name]) is not None:
                return found
        return None

    def _needed(self, case: Case) -> list[str]:
        catalogue = self._catalogue = self._catalogue or load_catalogue([Path(plugin) for plugin in self._plugins])
        return sorted({build for slot, name in case.subject.items() for build in catalogue.implementation(slot, name).builds})

    def _build(self, device: str, name: str, environment: Mapping[str, str]) -> str | None:
        log = self._folder / f"build-{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                python("-m", "bench.worker.build", device, name),
                env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            late = time.monotonic() + BUILD_TIMEOUT_S
            try:
                while process.poll() is None and time.monotonic() < late and not self._stop():
                    time.sleep(_LOOK_EVERY_S)
            finally:  # after a second Ctrl-C as well
                ended = process.poll()
                if ended is None:
                    os.killpg(process.pid, signal.SIGKILL)  # a session of its own: compilers are in its group
                    process.wait()
        if ended == 0 or self._stop():
            return None
        if ended is None:
            return f"the operator {name} was not compiled within {BUILD_TIMEOUT_S:g} s"
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if ended == 3 and lines else f"compiling {name} ended with {ended}: {' | '.join(lines[-_LAST_LINES:])}"
