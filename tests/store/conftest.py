"""Stores to test with: a file, and a database of a real PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.store import Store

_numbers = itertools.count(1)


def _server_binaries() -> Path | None:
    """The folder with initdb of the newest PostgreSQL installed here, on the PATH or where Debian puts it."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    return versions[-1].parent if versions else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL, without a database, of a server that lives as long as the session."""
    binaries = _server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed here (initdb not found)")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    as_user: list[str] = []
    # The server refuses to run as root.
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("running as root, and there is no user postgres to run the server as")
        as_user = ["runuser", "-u", "postgres", "--"]
    folder = Path(tempfile.mkdtemp(prefix="stepbench-pg-"))
    if as_user:
        shutil.chown(folder, "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def server(tool: str, *arguments: str) -> None:
        # Output goes to a file: the server would keep a pipe open, and the call would never end.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [*as_user, str(binaries / tool), *arguments], stdout=output, stderr=output, cwd=folder, check=False
            )
            output.seek(0)
            assert done.returncode == 0, output.read().decode(errors="replace")

    data = str(folder / "data")
    server("initdb", "-D", data, "-U", "bench", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    server("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://bench@127.0.0.1:{port}"
    finally:
        server("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


class _Databases:
    """Empty databases of one server. They are emptied and used again, since to make one copies megabytes."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._free: list[str] = []
        self._used: list[str] = []

    def take(self) -> str:
        import psycopg

        if not self._free:
            name = f"bench_{next(_numbers)}"
            with psycopg.connect(f"{self._server}/postgres", autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            self._free.append(f"{self._server}/{name}")
        self._used.append(self._free.pop())
        return self._used[-1]

    def empty(self) -> None:
        import psycopg

        for url in self._used:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SET lock_timeout = '20s'; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        self._free += self._used
        self._used.clear()


@pytest.fixture(scope="session")
def databases(postgresql: str) -> _Databases:
    return _Databases(postgresql)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes the URL of an empty database at each call."""
    if request.param == "sqlite":
        yield lambda: str(tmp_path / f"bench-{next(_numbers)}.db")
        return
    databases: _Databases = request.getfixturevalue("databases")
    yield databases.take
    databases.empty()


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened
