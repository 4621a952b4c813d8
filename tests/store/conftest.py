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
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.store import Store
from bench.store.models import Base

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
    for further_tries in (2, 1, 0):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        try:
            server("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
            break
        except AssertionError:
            # Another process may have taken the port that was free.
            if not further_tries:
                raise
    try:
        yield f"postgresql://bench@127.0.0.1:{port}"
    finally:
        server("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


class _Databases:
    """Databases of one server. They are emptied and used again, since to make one copies megabytes, and its tables take longer still."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._free: list[str] = []
        self._used: list[str] = []
        self._tables: dict[str, object] = {}
        """Of databases that have tables, what they look like untouched."""

    def take(self) -> str:
        """The URL of a database without tables."""
        return self._take([url for url in self._free if url not in self._tables])

    def take_ready(self) -> str:
        """The URL of a database with the tables of this version, and no rows."""
        url = self._take([url for url in self._free if url in self._tables])
        if url not in self._tables:
            Store.open(url).close()
            self._tables[url] = self._look(url)
        return url

    def _take(self, fit: list[str]) -> str:
        if fit:
            url = fit[-1]
            self._free.remove(url)
        else:
            name = f"bench_{next(_numbers)}"
            with self._connected(f"{self._server}/postgres") as connection:
                connection.execute(f"CREATE DATABASE {name}")
            url = f"{self._server}/{name}"
        self._used.append(url)
        return url

    def empty(self) -> None:
        """Takes back what was taken."""
        for url in self._used:
            with self._connected(url) as connection:
                connection.execute("SET lock_timeout = '20s'")
                if url in self._tables and self._look(url) == self._tables[url]:
                    listed = ", ".join(f'"{table.name}"' for table in Base.metadata.sorted_tables if table.name != "meta")
                    connection.execute(f"TRUNCATE {listed}")
                else:
                    self._tables.pop(url, None)
                    connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        self._free += self._used
        self._used.clear()

    def _look(self, url: str) -> object:
        """The schema's version and how much there is of it: a test that has changed tables leaves another look behind."""
        counts = ", ".join(f"(SELECT count(*) FROM {kind})" for kind in ("pg_class", "pg_attribute", "pg_constraint", "pg_trigger"))
        with self._connected(url) as connection:
            try:
                return connection.execute(
                    f"SELECT (SELECT version_num FROM alembic_version), (SELECT count(*) FROM meta), {counts}"
                ).fetchone()
            except self._driver.Error:
                return None

    @property
    def _driver(self) -> Any:
        import psycopg

        return psycopg

    def _connected(self, url: str) -> Any:
        return self._driver.connect(url, autocommit=True)


@pytest.fixture(scope="session")
def databases(postgresql: str) -> _Databases:
    return _Databases(postgresql)


@cache
def file_without_rows() -> bytes:
    """The file of an SQLite database with the tables of this version."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        Store.open(path).close()
        return path.read_bytes()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes the URL of a database without rows at each call."""
    if request.param == "sqlite":

        def copied() -> str:
            path = tmp_path / f"bench-{next(_numbers)}.db"
            path.write_bytes(file_without_rows())
            return str(path)

        yield copied
        return
    databases: _Databases = request.getfixturevalue("databases")
    yield databases.take_ready
    databases.empty()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes the URL of a database without tables at each call."""
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
