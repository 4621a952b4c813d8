"""Export to JSON Lines: how results travel, and how they are published. `importers/stepbench.py` reads it.

The first line is the manifest: format and record versions, the counts, and the SHA-256 of all bytes after its own line. Then come the
runs, oldest first, each followed by its results. The same rows give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from bench import __version__
from bench.errors import StoreError
from bench.records import RECORD_VERSION, Json, Result, Run, dump

if TYPE_CHECKING:
    from bench.store.database import Store

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written; `sha256` is that of all lines after the manifest."""

    runs: int
    results: int
    sha256: str


def export_jsonl(store: Store, out: BinaryIO | Path, run_ids: Sequence[str] | None = None) -> ExportReport:
    """Writes the runs `run_ids` (all by default) with all their results, excluded ones too. A path appears whole or not at all."""
    chosen = store.runs(ids=run_ids)
    missing = set(run_ids or ()) - {run.id for run in chosen}
    if missing:
        raise StoreError(f"no run {', '.join(sorted(missing))} in {store.location.shown}")
    digest = hashlib.sha256()
    results = 0
    with tempfile.TemporaryFile() as body:
        for run in reversed(chosen):
            found = store.results([run.id], include_excluded=True)
            try:
                for line in (_line("run", run), *(_line("result", result) for result in found)):
                    digest.update(line)
                    body.write(line)
                body.flush()
            except OSError as error:
                raise StoreError(
                    f"the temporary folder {tempfile.gettempdir()} takes no more ({error.strerror}). Set TMPDIR"
                ) from error
            results += len(found)
        report = ExportReport(len(chosen), results, digest.hexdigest())
        manifest = {
            "kind": "manifest",
            "format": FORMAT,
            "record_version": RECORD_VERSION,
            "written_by": f"stepbench {__version__}",
            "runs": report.runs,
            "results": report.results,
            "sha256": report.sha256,
        }
        body.seek(0)
        with _target(out) as target:
            target.write(_encode(manifest))
            while block := body.read(1 << 20):
                target.write(block)
    return report


def _line(kind: str, record: Run | Result) -> bytes:
    return _encode({"kind": kind, **dump(record)})


def _encode(data: Json) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"


@contextmanager
def _target(out: BinaryIO | Path) -> Iterator[BinaryIO]:
    if not isinstance(out, Path):
        yield out
        return
    with replacing(out) as raw:
        if out.suffix == ".gz":
            # Neither name nor time inside, so that equal rows give equal bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                yield cast("BinaryIO", packed)
        elif out.suffix == ".xz":
            with lzma.LZMAFile(raw, "wb", preset=9 | lzma.PRESET_EXTREME) as smaller:
                yield cast("BinaryIO", smaller)
        else:
            yield raw


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when it is whole and on the disk, so that nobody sees half of it. Raises StoreError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
