"""What the database says when it refuses, turned into words that tell the user what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from bench.errors import StoreError
from bench.store.location import Location

_SQLITE = {
    "SQLITE_FULL": "the disk is full. All rows committed so far are safe: free some space and go on (`bench run --resume`)",
    "SQLITE_READONLY": "it is read-only. Change the permissions, or give another file with --db",
    "SQLITE_CANTOPEN": "it cannot be opened. Look at the permissions of the file and of its folder",
    "SQLITE_PERM": "permission denied. Look at the permissions of the file and of its folder",
    "SQLITE_NOTADB": "it is not an SQLite database. Give another file with --db",
    "SQLITE_CORRUPT": "the file is damaged. Keep a copy, run `bench db check`, and export what can be read with `bench db export`",
    "SQLITE_BUSY": "another process keeps it locked. Wait until that one is done, then try again",
    "SQLITE_LOCKED": "another process keeps it locked. Wait until that one is done, then try again",
    "SQLITE_IOERR": "reading or writing the disk failed. Look at free space and health of the disk; committed rows are safe",
    "SQLITE_TOOBIG": "a text or a log is longer than the database can hold",
}

_POSTGRES = {
    "53100": "the server's disk is full. All rows committed so far are safe: free some space and go on (`bench run --resume`)",
    "53300": "the server has no free connection. Try again later",
    "28P01": "the server refuses the user or the password",
    "28000": "the server refuses the user",
    "3D000": "the server has no such database. Create it with `createdb`, then try again",
    "42501": "the user lacks a permission. Grant it the right to create and write tables",
    "25006": "the server takes no writes (a standby, or a read-only transaction)",
    "40001": "another process wrote at the same time. Try again",
    "40P01": "another process wrote at the same time. Try again",
    "54000": "a name or a text is longer than the database can index",
    "55P03": "another process keeps it locked. Wait until that one is done, then try again",
    "57P03": "the server is starting or stopping. Try again",
}


class Damaged(StoreError):
    """The file of a database cannot be read to its end. `detail`: what the database says of it."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


class Unreadable(ValueError):
    """A stored value is not what its place holds. Whose it is, `unreadable.py` finds out."""


def undecodable(error: BaseException) -> bool:
    """Whether SQLite came to a text that is not UTF-8."""
    return isinstance(error, DBAPIError) and "Could not decode to UTF-8" in str(error.orig)


@contextmanager
def told(location: Location) -> Iterator[None]:
    """Turns what a user can fix (disk, permissions, locks, servers) into StoreError; lets our own mistakes through."""
    try:
        yield
    except DBAPIError as error:
        words = _words(error)
        if words is None:
            raise
        detail = location.without_secrets(str(error.orig).strip().split("\n")[0])
        message = f"database {location.shown}: {words} (the database says: {detail})"
        raise (Damaged(message, detail) if words is _SQLITE["SQLITE_CORRUPT"] else StoreError(message)) from error
    except UnicodeEncodeError as error:
        raise StoreError(
            f"database {location.shown}: a text is not valid Unicode and cannot be stored ({error.object[:80]!r})."
            " Rename the file, or give the text in UTF-8"
        ) from error


def _words(error: DBAPIError) -> str | None:
    original = error.orig
    if isinstance(original, sqlite3.Error):
        # Extended names (SQLITE_READONLY_DIRECTORY, SQLITE_IOERR_WRITE) start with the plain one.
        name = getattr(original, "sqlite_errorname", "")
        return next((words for known, words in _SQLITE.items() if name == known or name.startswith(known + "_")), None)
    state = getattr(original, "sqlstate", None)
    if state is not None:
        if state.startswith(("08", "57P")):
            return _POSTGRES.get(state, "the connection to the server was lost. Committed rows are safe: try again")
        return _POSTGRES.get(state)
    if error.connection_invalidated or type(original).__name__ == "OperationalError":
        return "the server cannot be reached. Look at host, port, user and database of the URL"
    return None
