"""Where results live: models, migrations, queries, export and import. Imported inside functions only, since it brings SQLAlchemy along.

Names come from their modules when they are first asked for, so that `steps`, which needs no SQLAlchemy for a file, does not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.store.database import Store
    from bench.store.exchange import ExportReport
    from bench.store.ids import new_id
    from bench.store.intake import ImportReport
    from bench.store.judgements import Acceptance, Baseline
    from bench.store.publishing import Published, device_folder, file_word, publish
    from bench.store.queries import Done, Pin
    from bench.store.retention import Collected, Retention
    from bench.store.schema import Upgrade, upgrade
    from bench.store.summary import summary_rows, write_summary

_HOMES = {
    "Acceptance": "judgements",
    "Baseline": "judgements",
    "Collected": "retention",
    "Done": "queries",
    "ExportReport": "exchange",
    "ImportReport": "intake",
    "Pin": "queries",
    "Published": "publishing",
    "Retention": "retention",
    "Store": "database",
    "Upgrade": "schema",
    "device_folder": "publishing",
    "file_word": "publishing",
    "new_id": "ids",
    "publish": "publishing",
    "summary_rows": "summary",
    "upgrade": "schema",
    "write_summary": "summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    "Acceptance",
    "Baseline",
    "Collected",
    "Done",
    "ExportReport",
    "ImportReport",
    "Pin",
    "Published",
    "Retention",
    "Store",
    "Upgrade",
    "device_folder",
    "file_word",
    "new_id",
    "publish",
    "summary_rows",
    "upgrade",
    "write_summary",
]
