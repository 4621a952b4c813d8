"""Export to JSON Lines: how results travel, and how they are published. `importers/stepbench.py` reads it.

The first line is the manifest: format and record versions, the counts, and the SHA-256 of all bytes after its own line. Then come the
runs, oldest first, each followed by its results; or, in what is to travel light, first all runs and then the results of all, as columns
(columns.py). The same rows give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from bench import __version__
from bench.errors import StoreError
from bench.records import RECORD_VERSION, Json, Result, Run, dump
from bench.store.columns import in_columns

if TYPE_CHECKING:
    from bench.store.database import Store

FORMAT = 2
"""The newest. Files whose results are a line each are of the first, which older versions read."""
_ROWS_TOGETHER = 5000
_BYTES_TOGETHER = 12 * 2**20
"""Of rows that share columns, as lines of their own: no line may be longer than a reader takes."""
_ALONE_BYTES = 2**20
"""A row of more stays a line of its own: in columns it might hold more values than a reader takes."""
_TEXT_FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lp": 0, "pb": 0, "nice_len": 273},)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written; `sha256` is that of all lines after the manifest."""

    runs: int
    results: int
    sha256: str


def export_jsonl(
    store: Store, out: BinaryIO | Path, run_ids: Sequence[str] | None = None, *, as_columns: bool = False
) -> ExportReport:
    """Writes the runs `run_ids` (all by default) with all their results, excluded ones too. A path appears whole or not at all."""
    chosen = store.runs(ids=run_ids)
    missing = set(run_ids or ()) - {run.id for run in chosen}
    if missing:
        raise StoreError(f"no run {', '.join(sorted(missing))} in {store.location.shown}")
    digest = hashlib.sha256()
    results = 0
    with tempfile.TemporaryFile() as body:
        for line, count in _together(store, chosen) if as_columns else _line_by_line(store, chosen):
            digest.update(line)
            results += count
            try:
                body.write(line)
            except OSError as error:
                raise _no_room(error) from error
        try:
            body.flush()
        except OSError as error:
            raise _no_room(error) from error
        report = ExportReport(len(chosen), results, digest.hexdigest())
        manifest = {
            "kind": "manifest",
            "format": FORMAT if as_columns else 1,
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


def _no_room(error: OSError) -> StoreError:
    return StoreError(f"the temporary folder {tempfile.gettempdir()} takes no more ({error.strerror}). Set TMPDIR")


def _line_by_line(store: Store, newest_first: Sequence[Run]) -> Iterator[tuple[bytes, int]]:
    """Each line, and how many results it holds."""
    for run in reversed(newest_first):
        yield _line("run", run), 0
        for result in store.results([run.id], include_excluded=True):
            yield _line("result", result), 1


def _together(store: Store, newest_first: Sequence[Run]) -> Iterator[tuple[bytes, int]]:
    """The same in columns that the results of all runs share, after the runs."""
    for run in reversed(newest_first):
        yield _line("run", run), 0
    rows: list[dict[str, Json]] = []
    size = 0
    for result in (result for run in reversed(newest_first) for result in store.results([run.id], include_excluded=True)):
        row = dump(result)
        length = len(_encode(row))
        if rows and (len(rows) == _ROWS_TOGETHER or size + length > _BYTES_TOGETHER):
            yield from _columns(rows, size)
            rows, size = [], 0
        if length > _ALONE_BYTES:
            yield _line("result", result), 1
            continue
        rows.append(row)
        size += length
    if rows:
        yield from _columns(rows, size)


def _columns(rows: Sequence[Mapping[str, Json]], size_bytes: int) -> Iterator[tuple[bytes, int]]:
    """One line of columns, or a line each where columns of rows that share little would take more."""
    line = _encode({"kind": "results", **in_columns(rows)})
    if len(line) <= max(size_bytes, _ALONE_BYTES):
        yield line, len(rows)
    else:
        yield from ((_encode({"kind": "result", **row}), 1) for row in rows)


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
            with lzma.LZMAFile(raw, "wb", filters=_TEXT_FILTERS) as smaller:
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
