"""The version of the tables: fresh ones are made at the newest, older ones are upgraded only when asked, newer ones are refused."""

from __future__ import annotations

import datetime
import shlex
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text

import bench
from bench.errors import StoreError
from bench.store.engine import connect
from bench.store.failures import told
from bench.store.ids import new_id
from bench.store.location import Location, locate

REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004")
"""Every schema that was ever released, oldest first: the files in migrations/versions. Here, so that opening needs no Alembic."""

MIGRATIONS = Path(__file__).with_name("migrations")

_CREATION_LOCK = 0x7374_6570
"""PostgreSQL's advisory lock for making or changing the tables: 'step' in ASCII."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What `upgrade` did. `backup` is the copy of the old file: None for a server, or where nothing was to do."""

    before: str | None
    after: str
    backup: Path | None
    notices: tuple[str, ...] = ()


def found_revision(connection: Connection, shown: str) -> str | None:
    """The schema of the database, or None for an empty one. Raises StoreError, naming it as `shown`, where other tables are in it."""
    names = set(inspect(connection).get_table_names())
    if not names:
        return None
    if "alembic_version" not in names or "meta" not in names:
        raise StoreError(
            f"database {shown} holds other tables ({', '.join(sorted(names)[:5])}) and none of bench. Give another one with --db"
        )
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)


class EmptyStoreError(StoreError):
    """There is a database, and nothing in it: the first run makes its tables."""


def require_current(location: Location, revision: str | None) -> None:
    """Raises StoreError unless the tables have the newest schema that this bench knows, EmptyStoreError where there are none."""
    if revision is None:
        raise EmptyStoreError(
            f"database {location.shown} is empty. `bench run` fills one, `bench db import` reads published results into one"
        )
    if revision not in REVISIONS:
        raise StoreError(
            f"database {location.shown} has schema {revision}, which is newer than this bench {bench.__version__} knows ({REVISIONS[-1]})."
            " Install a newer bench, or give another file with --db"
        )
    if revision != REVISIONS[-1]:
        raise StoreError(
            f"database {location.shown} has the older schema {revision}; this bench needs {REVISIONS[-1]}."
            f" Run `bench db upgrade --db {shlex.quote(location.shown)}` (it keeps a copy of a file first)"
        )


def create(connection: Connection, shown: str) -> None:
    """Makes all tables inside the open transaction of `connection`. Does nothing where another process was faster."""
    _lock(connection)
    if found_revision(connection, shown) is not None:
        return
    _migrate(connection)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    facts = {"database_id": new_id(), "created_at": now, "created_by": f"stepbench {bench.__version__}"}
    connection.execute(
        text("INSERT INTO meta (key, value) VALUES (:key, :value)"), [{"key": key, "value": value} for key, value in facts.items()]
    )


def upgrade(url: str | Path) -> Upgrade:
    """Brings an older database to the newest schema, after a copy of the file.

    Raises StoreError where that cannot be done; then nothing is changed.
    """
    location = locate(url)
    if location.path is not None and not location.path.exists():
        raise StoreError(f"no database at {location.shown}")
    with told(location):
        # Rebuilding a table, as SQLite needs for most changes, would trip over the foreign keys; they are checked at the end.
        engines = connect(location, foreign_keys=False)
        try:
            with engines.writer.begin() as connection:
                _lock(connection)
                before = found_revision(connection, location.shown)
                if before == REVISIONS[-1]:
                    return Upgrade(before, before, None, engines.notices)
                if before is not None and before not in REVISIONS:
                    require_current(location, before)
                backup = None
                if location.path is not None and before is not None:
                    backup = _copy(location.path, before)
                _migrate(connection)
                if location.path is not None:
                    broken = connection.execute(text("PRAGMA foreign_key_check")).fetchall()
                    if broken:
                        raise StoreError(
                            f"database {location.shown}: {len(broken)} rows would lose their parent; nothing was changed"
                        )
        finally:
            engines.writer.dispose()
    notices = engines.notices
    if location.url is not None and before is not None:
        notices = (*notices, "a server is not copied before an upgrade: use pg_dump for that")
    return Upgrade(before, REVISIONS[-1], backup, notices)


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})


def _copy(path: Path, revision: str) -> Path:
    """A whole copy of a database that others may be reading, made by SQLite itself so that what is still in the log comes along."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.schema-{revision}.{stamp}.bak")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise StoreError(
            f"database {path}: the copy before the upgrade failed ({error}), so nothing was changed. Look at the free space"
        ) from error
    return target


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    # The option is read with interpolation, where a percent sign of the path must be doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, REVISIONS[-1])
