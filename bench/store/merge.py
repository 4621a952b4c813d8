"""Merges databases: runs and results of another one come in by their natural keys, and so do pins and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.errors import StoreError
from bench.store import judgements, writes
from bench.store.intake import ImportReport, Intake, Refused

if TYPE_CHECKING:
    from bench.store.database import Store


def merge(store: Store, other: Store) -> ImportReport:
    """Brings into `store` what `other` has and it has not, all or nothing; `other` stays as it is.

    Results are read and written a run at a time. Raises StoreError where both are one database, or a row of `other` cannot be stored.
    """
    if other.location == store.location:
        raise StoreError(f"{other.location.shown} is the database that should take it in: name another one")
    shown = other.location.shown
    try:
        with store.ingesting() as connection:
            intake = Intake(connection)
            for run in reversed(other.runs()):
                intake.run(run, shown)
                for result in other.results([run.id], include_excluded=True):
                    intake.result(result, shown)
            report = intake.finish()
            for pin in other.pins():
                writes.pin(connection, pin)
            judgements.merge(connection, other)
    except Refused as error:
        raise StoreError(f"{error.where}: {error}. Nothing was merged") from error
    return report
