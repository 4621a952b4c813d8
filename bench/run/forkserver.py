"""The parent's end of the fork server: starts it, asks for trials, and ends all that grew from it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import bench
from bench.errors import BenchError, HarnessError
from bench.machine import python, python_environment
from bench.processes import Process, descendants, end_all
from bench.records import Json, Scalar

_START_TIMEOUT_S = 300.0
"""Importing torch from a cold network disk takes minutes; more means that it hangs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process of a trial ended. A negative code names the signal."""

    returncode: int
    survivors: tuple[int, ...] = ()
    """Processes that even SIGKILL did not end."""


class ServerDied(Exception):
    """The fork server is gone; all that it left has been ended."""


CLOCK_CACHE_VARIABLE = "BENCH_CLOCK_CACHE_DIR"
"""Where the worker keeps the compiled kernels of its own clock: one folder a run, for they are no subject's."""
CURVES_VARIABLE = "BENCH_CURVES_DIR"
"""Where trials of a training step leave the curves of plain PyTorch that their arms are all compared with: one folder a run."""


def cache_variables(folder: Path) -> dict[str, str]:
    """The variables that send every compiler's cache below `folder`. All are read when something compiles, so a trial may set them."""
    return {
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        # CUTLASS's DSL would keep its own below the temporary folder, from one run to the next.
        "CUTE_DSL_CACHE_DIR": str(folder / "cute_dsl"),
        # FlashAttention-4 compiles with that DSL and keeps nothing on disk unless told to.
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": str(folder / "cute"),
    }


def server_environment(threads: int, caches: Path, changes: Mapping[str, str]) -> dict[str, str]:
    """The environment that must stand before torch is imported: one thread pool size, caches below `caches`, no CUDA at import."""
    count = str(threads)
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        "KINETO_LOG_LEVEL": "99",  # or the profiler writes four lines into every trial's log
        **python_environment(),
        **dict.fromkeys(pools, count),
        # Spinning threads beside one other busy process cost a factor of ten and more.
        "OMP_WAIT_POLICY": "passive",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        # NVML counts GPUs by their address; only so does CUDA's number N mean the one whose lock we hold.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **cache_variables(caches),
        CLOCK_CACHE_VARIABLE: str(caches / "clock"),
        CURVES_VARIABLE: str(caches / "curves"),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",  # no subject asks a hub for anything
        **changes,
    }


class ForkServer:
    """One running server. `start` gives the next one a place for its log; `close` ends it and everything below it."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        """`log` gets what the server itself prints; trials have logs of their own."""
        self._log = log
        # Children that this process already had are not ours to end when orphans are swept up.
        self._strangers = {(child.pid, child.born) for child in descendants(os.getpid()) if child.parent == os.getpid()}
        self._socket, theirs = socket.socketpair()
        with theirs, log.open("ab") as output:
            # A session of its own: Ctrl-C in the terminal is for the parent, which then ends trials in order.
            self._process = subprocess.Popen(
                python("-m", "bench.worker.server", "--fd", str(theirs.fileno())),
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._incoming = b""
        self.facts: Mapping[str, Scalar] = {}
        self.prepared_s = 0.0
        """What the latest `begin` took for imports that its trial has in common with others: no cost of that trial."""
        self._branches: frozenset[int] = frozenset()
        """Processes below the server that are no trial's, and outlive it."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, stop: Callable[[], bool]) -> bool:
        """Waits until torch is imported and fills `facts`; False where `stop` turned true meanwhile: then the server has been ended.

        Raises BenchError where torch cannot be imported or the server runs another copy of our code, ServerDied where somebody
        killed the server.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        message = None
        try:
            while message is None and time.monotonic() < deadline:
                if stop():
                    self._abandon()
                    return False
                message = self._message(time.monotonic() + 0.1)
        except ServerDied:
            if self._process.returncode < 0:
                raise  # somebody killed it: not a fault of ours
            raise HarnessError(f"the fork server ended while starting:\n{self._log_tail()}") from None
        if message is None:
            raise HarnessError(f"the fork server was not ready after {_START_TIMEOUT_S:.0f} s:\n{self._log_tail()}")
        if message["event"] == "failed":
            raise BenchError(f"torch cannot be imported by {sys.executable}: {message['message']}\n{self._log_tail()}")
        own = Path(bench.__file__).parent
        if not own.samefile(message["source"]):
            raise BenchError(
                f"trials would run the code in {message['source']}, and this command is that in {own}: install one of them for "
                f"{sys.executable} (`pip install -e FOLDER`), or start bench where the installed one is"
            )
        self.facts = message["facts"]
        return True

    def begin(self, directory: Path, world_size: int, variables: Mapping[str, str] | None = None) -> int:
        """Starts the trial of `directory`, with `variables` added to its environment, and returns its pid.

        Raises ServerDied, or HarnessError where the server refuses.
        """
        request = {"op": "run", "directory": str(directory), "world_size": world_size, "variables": dict(variables or {})}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            self._bury()
        message = self._message(time.monotonic() + 60.0)
        if message is None:
            raise HarnessError("the fork server did not fork within 60 s")
        if message["event"] != "started":
            raise HarnessError(str(message.get("message", message)))
        self.prepared_s = float(message["prepared_s"])
        self._branches = frozenset(message["branches"])
        return int(message["pid"])

    def wait(self, timeout_s: float) -> Ended | None:
        """The end of the trial that `begin` started, or None when it still runs after `timeout_s`. Raises ServerDied."""
        message = self._message(time.monotonic() + timeout_s)
        return None if message is None else Ended(int(message["returncode"]), tuple(message["survivors"]))

    def end_trial(self, grace_s: float) -> Ended:
        """TERM to every process of the trial, then KILL. Raises ServerDied where the server goes as well."""

        def find() -> list[Process]:
            return [process for process in descendants(self.pid) if process.pid not in self._branches]

        end_all(find, grace_s=grace_s, collect=lambda _zombies: None)
        ended = self.wait(30.0)
        if ended is None:
            raise HarnessError("a trial could not be ended: its process does not react to SIGKILL")
        return ended

    def close(self) -> None:
        """Ends the server and everything below it. Safe to call twice."""
        self._socket.close()  # the server's cue: it kills its children and leaves
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode != 0:
            self._end_orphans()

    def _abandon(self) -> None:
        """Ends a server that has begun nothing yet: at once, since it would not hear us before torch is imported."""
        self._process.kill()
        self.close()

    def _message(self, deadline: float) -> dict[str, Json] | None:
        """The server's next line, or None at the deadline."""
        while b"\n" not in self._incoming:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._socket], [], [], left_s)[0]:
                return None
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                self._bury()
            self._incoming += data
        line, self._incoming = self._incoming.split(b"\n", 1)
        message: dict[str, Json] = json.loads(line)
        return message

    def _bury(self) -> None:
        self.close()
        code = self._process.returncode
        raise ServerDied(f"the fork server ended with {'signal' if code < 0 else 'status'} {abs(code)}\n{self._log_tail()}".strip())

    def _end_orphans(self) -> None:
        """Ends what a dead server left behind: as subreaper, this process has become its parent.

        Trials live in sessions of their own, and a session cannot be joined: a child in our session was never a trial's.
        """
        mine = os.getpid()
        session = os.getsid(0)

        def find() -> list[Process]:
            below = descendants(mine)
            orphans = {
                child.pid
                for child in below
                if child.parent == mine and child.session != session and (child.pid, child.born) not in self._strangers
            }
            for child in below:
                if child.parent in orphans:
                    orphans.add(child.pid)
            return [child for child in below if child.pid in orphans]

        end_all(find, grace_s=0.0)

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return self._log.read_bytes()[-4096:].decode(errors="replace").strip()
        return ""
