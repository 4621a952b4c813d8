"""Where results live: models, migrations, queries, export and import. Imported inside functions only, since it brings SQLAlchemy along."""

from bench.store.database import Store
from bench.store.exchange import ExportReport
from bench.store.ids import new_id
from bench.store.intake import ImportReport
from bench.store.judgements import Acceptance, Baseline
from bench.store.publish import Published, device_folder, file_word, publish
from bench.store.queries import Done, Pin
from bench.store.retention import Collected, Retention
from bench.store.schema import Upgrade, upgrade
from bench.store.summary import summary_rows, write_summary

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
