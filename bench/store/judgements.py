"""What people decide about results: baselines by name, and changes that they accept until a day. Rows are added and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, select

from bench.store.ids import new_id
from bench.store.models import AcceptanceRow, BaselineRow
from bench.store.writes import insert_missing

if TYPE_CHECKING:
    from bench.store.database import Store


@dataclass(frozen=True, slots=True)
class Baseline:
    """A run by a name that comparisons can rest on."""

    name: str
    run_id: str | None
    """None where the name was taken away."""
    author: str
    reason: str
    set_at: str
    """UTC, ISO 8601, as all times."""
    expires_at: str | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One change of one series that is known and wanted."""

    series_key: str
    word: str
    """`worse` or `missing`."""
    ratio: float | None
    """The second side over the first when it was accepted; None for a change of status."""
    author: str
    reason: str
    accepted_at: str
    expires_at: str


def add_baseline(connection: Connection, baseline: Baseline) -> None:
    """Sets a name, from now on; the row before stays."""
    connection.execute(insert(BaselineRow), [asdict(baseline)])


def baselines(connection: Connection) -> list[Baseline]:
    """The latest of each name, by name; those that were taken away are left out."""
    latest: dict[str, Baseline] = {}
    for row in connection.execute(select(BaselineRow.__table__)):
        found = Baseline(row.name, row.run_id, row.author, row.reason, row.set_at, row.expires_at)
        if row.name not in latest or latest[row.name].set_at < found.set_at:
            latest[row.name] = found
    return [latest[name] for name in sorted(latest) if latest[name].run_id is not None]


def add_acceptances(connection: Connection, accepted: Sequence[Acceptance]) -> None:
    """Stores acceptances, all or none."""
    if accepted:
        connection.execute(insert(AcceptanceRow), [{"id": new_id(), **asdict(one)} for one in accepted])


def acceptances(connection: Connection) -> list[Acceptance]:
    """All of them, those past their end too, oldest first."""
    found = [
        Acceptance(row.series_key, row.word, row.ratio, row.author, row.reason, row.accepted_at, row.expires_at)
        for row in connection.execute(select(AcceptanceRow.__table__))
    ]
    return sorted(found, key=lambda one: (one.accepted_at, one.series_key))


def merge(connection: Connection, other: Store) -> None:
    """Adds all that another database holds and this one has not. The runs that its baselines name must be stored by now."""
    with other.reading() as source:
        for model in (BaselineRow, AcceptanceRow):
            insert_missing(connection, model, [dict(row._mapping) for row in source.execute(select(model.__table__))])
