"""Files that become rows: each module in this folder is one format, found by being here.

An importer has a name (the module's, with dashes), `recognises(head)`, told by the beginning of a file's text, and `read(source, intake)`,
which hands runs and results to the intake. It raises StoreError (`source.refuse`) for a file that is not as it should be; then nothing of
the file is kept. Rows of other tools are made by `bench.store.foreign`, so that what a source does not tell stays unknown and nobody
takes the row for one of ours.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from bench.errors import StoreError
from bench.store.intake import ImportReport, Intake, Refused
from bench.store.source import Source, opened, refusal

if TYPE_CHECKING:
    from bench.store.database import Store


class Importer(Protocol):
    """What a module of this folder offers."""

    def recognises(self, head: str) -> bool:
        """Whether a file that begins with `head` (up to 64 KiB) is of this format."""

    def read(self, source: Source, intake: Intake) -> None:
        """Hands all of the file to `intake`. Raises StoreError and Refused."""


def importers() -> Mapping[str, Importer]:
    """All of them by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name.replace("_", "-"): cast("Importer", importlib.import_module(f"{__name__}.{name}")) for name in names}


def import_file(store: Store, path: Path, format_: str | None = None) -> ImportReport:
    """Reads a file in one transaction, all or nothing. `format_` is recognised by the file's beginning where it is not given.

    Raises StoreError, naming file and line, for anything that is not as it should be.
    """
    known = importers()
    if format_ is not None and format_ not in known:
        raise StoreError(f"no importer {format_!r}: there are {', '.join(known)}")
    with opened(path) as source:
        importer = known[format_] if format_ is not None else _recognised(source, known)
        try:
            with store.ingesting() as connection:
                intake = Intake(connection)
                importer.read(source, intake)
                return intake.finish()
        except Refused as error:
            raise refusal(path, error.where, str(error)) from error


def _recognised(source: Source, known: Mapping[str, Importer]) -> Importer:
    if not source.head:
        raise StoreError(f"{source.path} is empty")
    found = [name for name, importer in known.items() if importer.recognises(source.head)]
    if len(found) == 1:
        return known[found[0]]
    if source.head.startswith("SQLite format 3"):
        raise StoreError(f"{source.path} is a database and no file of rows: bench db merge {source.path} takes in what it has")
    what = f"could be {' or '.join(found)}" if found else f"is no file that bench knows ({', '.join(known)})"
    raise StoreError(f"{source.path} {what}. Say which with --format. Nothing was imported")
