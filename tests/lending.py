"""One real fork server for many runs of this process: a run borrows it where it would start one of its own, and leaves it standing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.records import Scalar
from bench.run.forkserver import CLOCK_CACHE_VARIABLE, Ended, ForkServer, ServerDied, cache_variables

_AT_THE_FORK = {*cache_variables(Path()), CLOCK_CACHE_VARIABLE, "TMPDIR", "PYTEST_CURRENT_TEST"}
"""What is read when a trial runs and not when torch is imported. Each trial gets them from its run, as it gets its caches."""


def _read_at_the_fork(name: str) -> bool:
    return name in _AT_THE_FORK or name.startswith("BENCH_")


class Lender:
    """Keeps the servers that it has lent, one for each environment that torch was imported with."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "server.log"
        self._servers: dict[frozenset[tuple[str, str]], ForkServer] = {}

    def borrow(self, _log: Path, environment: Mapping[str, str]) -> Borrowed:
        """Stands in for `ForkServer(log, environment)`."""
        return Borrowed(self, environment)

    def server(self, environment: Mapping[str, str], stop: Callable[[], bool]) -> ForkServer | None:
        """A started one; None where `stop` turned true meanwhile."""
        wanted = frozenset((name, value) for name, value in environment.items() if not _read_at_the_fork(name))
        if wanted not in self._servers:
            started = ForkServer(self._log, dict(wanted))
            ready = False
            try:
                ready = started.start(stop)
            finally:
                if not ready:
                    started.close()
            if not ready:
                return None
            self._servers[wanted] = started
        return self._servers[wanted]

    def end(self, server: ForkServer) -> None:
        """Ends one of them, and with it all that may still live below it."""
        self._servers = {imported: kept for imported, kept in self._servers.items() if kept is not server}
        server.close()

    def close(self) -> None:
        """Ends all of them."""
        for server in list(self._servers.values()):
            self.end(server)


class Borrowed:
    """What a run has in place of a server of its own: the same calls, and all but the start and the end reach the real one."""

    def __init__(self, lender: Lender, environment: Mapping[str, str]) -> None:
        self._lender = lender
        self._environment = environment
        self._server: ForkServer | None = None
        self._sound = True
        self.facts: Mapping[str, Scalar] = {}

    @property
    def pid(self) -> int:
        with self._lent() as server:
            return server.pid

    @property
    def prepared_s(self) -> float:
        with self._lent() as server:
            return server.prepared_s

    def start(self, stop: Callable[[], bool]) -> bool:
        if stop():
            return False
        self._server = self._lender.server(self._environment, stop)
        if self._server is None:
            return False
        self.facts = self._server.facts
        return True

    def begin(self, directory: Path, world_size: int, variables: Mapping[str, str] | None = None) -> int:
        self._sound = False
        own = {name: value for name, value in self._environment.items() if _read_at_the_fork(name)}
        with self._lent() as server:
            return server.begin(directory, world_size, {**own, **(variables or {})})

    def wait(self, timeout_s: float) -> Ended | None:
        with self._lent() as server:
            ended = server.wait(timeout_s)
        self._sound = ended is not None and not ended.survivors
        return ended

    def end_trial(self, grace_s: float) -> Ended:
        with self._lent() as server:
            ended = server.end_trial(grace_s)
        self._sound = not ended.survivors
        return ended

    def close(self) -> None:
        """Gives the server back; one whose trial was not seen to end is ended, as a run's own would be."""
        if not self._sound:
            with self._lent() as server:
                self._lender.end(server)

    @contextlib.contextmanager
    def _lent(self) -> Iterator[ForkServer]:
        """The real one. Nobody else gets one that has died."""
        assert self._server is not None, "it was not started"
        try:
            yield self._server
        except ServerDied:
            self._lender.end(self._server)
            raise
