"""Where a database is: a file or a server, from a path or a URL, and how it may be shown without its password."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from bench.errors import StoreError


@dataclass(frozen=True, slots=True)
class Location:
    """One database. `path` is set for SQLite, `url` for PostgreSQL."""

    path: Path | None
    url: URL | None

    @property
    def shown(self) -> str:
        """For people: never holds a password."""
        if self.url is None:
            return str(self.path)
        return self.url.set(query={}).render_as_string(hide_password=True)

    @property
    def spelled(self) -> str:
        """With its password: for the environment of a process of ours, and for nobody's eyes."""
        return str(self.path) if self.url is None else self.url.render_as_string(hide_password=False)

    def without_secrets(self, text: str) -> str:
        """`text` with every password of the URL replaced."""
        if self.url is None:
            return text
        secrets = [self.url.password, *(value for key, value in self.url.query.items() if "pass" in key.lower())]
        for secret in secrets:
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "***")
        return text


def locate(url: str | Path) -> Location:
    """The location that a plain path, or a URL of SQLite or PostgreSQL, means. Raises StoreError for any other URL."""
    text = os.fspath(url)
    if isinstance(url, Path) or "://" not in text:
        return Location(_absolute(text), None)
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        # The text is not repeated: a URL that cannot be read may still hold a password.
        raise StoreError(
            "the database URL cannot be read: write a path, sqlite:///PATH, or postgresql://USER@HOST:PORT/DATABASE"
            " (special characters of a password as %XX)"
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreError(
                "an SQLite database in memory would be lost with the process: give a file, as sqlite:///results/bench.db"
            )
        return Location(_absolute(parsed.database), None)
    if backend in ("postgresql", "postgres"):
        return Location(None, parsed.set(drivername="postgresql+psycopg"))
    raise StoreError(f"databases of kind {backend!r} are not supported: use SQLite (a path) or postgresql://")


def _absolute(text: str) -> Path:
    if "\x00" in text or not text:
        raise StoreError("the path of the database is empty or holds a NUL character")
    return Path(os.path.realpath(Path(text).expanduser()))
