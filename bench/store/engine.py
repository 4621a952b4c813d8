"""Connections with the settings that keep rows safe: WAL, foreign keys, busy time-out, and writes that lock at their start."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import QueuePool

from bench.errors import StoreError
from bench.store.filesystems import shared_file_system
from bench.store.location import Location

BUSY_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Engines:
    """Two views of one pool: `writer` transactions lock at once, `reader` transactions see one unchanging state."""

    reader: Engine
    writer: Engine
    notices: tuple[str, ...]


def connect(
    location: Location, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S, foreign_keys: bool = True
) -> Engines:
    """Engines for `location`; the folder of an SQLite file must be there.

    Raises StoreError where the driver is missing, or where the file cannot be written and `read_only` is False.
    """
    if location.path is not None:
        return _sqlite(location, read_only=read_only, busy_timeout_s=busy_timeout_s, foreign_keys=foreign_keys)
    return _postgresql(location, read_only=read_only)


def _postgresql(location: Location, *, read_only: bool) -> Engines:
    assert location.url is not None
    try:
        engine = create_engine(location.url, hide_parameters=True, connect_args={"connect_timeout": 10})
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise StoreError("PostgreSQL needs the package psycopg: `pip install 'stepbench[postgresql]'`") from error
    reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return Engines(reader, reader if read_only else engine, ())


def _sqlite(location: Location, *, read_only: bool, busy_timeout_s: float, foreign_keys: bool) -> Engines:
    path = location.path
    assert path is not None
    notices: list[str] = []
    writable = os.access(path if path.exists() else path.parent, os.W_OK) and os.access(path.parent, os.W_OK)
    if not writable and not read_only:
        raise StoreError(
            f"database {path}: the file or its folder is read-only. Change the permissions, or give another file with --db"
        )
    uri = path.as_uri() + ("?mode=rwc" if writable and not read_only else "?mode=rw" if writable else "?mode=ro")
    if not writable and not _has_log(location):
        # Without a folder to write to, a WAL database opens only if SQLite is told that nobody changes it.
        uri += "&immutable=1"
    shared = shared_file_system(path.parent)
    journal_mode = "DELETE" if shared else "WAL"
    if shared and not read_only:
        notices.append(f"journal_mode=DELETE because {path} lies on {shared}, where SQLite's write-ahead log is unsafe")

    def open_connection() -> sqlite3.Connection:
        # isolation_level=None: the module must not open transactions by itself; `_begin` does.
        connection = sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
            if read_only:
                # Not mode=ro: such a reader, when it is the last to close, leaves the log behind with rows in it.
                connection.execute("PRAGMA query_only=ON")
            else:
                connection.execute("PRAGMA synchronous=FULL")
                if connection.execute("PRAGMA journal_mode").fetchone()[0].upper() != journal_mode:
                    connection.execute(f"PRAGMA journal_mode={journal_mode}")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=open_connection, poolclass=QueuePool, hide_parameters=True)
    event.listen(engine, "begin", _begin)
    return Engines(engine, engine.execution_options(bench_begin="BEGIN IMMEDIATE"), tuple(notices))


def _has_log(location: Location) -> bool:
    assert location.path is not None
    log = location.path.with_name(location.path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("bench_begin", "BEGIN"))
