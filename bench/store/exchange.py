"""Export to and import from JSON Lines: how results travel, and how they are published.

The first line is the manifest: format and record versions, the counts, and the SHA-256 of all bytes after its own line. Then come the
runs, oldest first, each followed by its results. The same rows give the same bytes. An import trusts nothing: lines and nesting are
bounded, every record is validated, and nothing is committed unless all of the file is as its manifest says.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, TypeVar, cast

from bench import __version__
from bench.errors import StoreError
from bench.records import RECORD_VERSION, Json, Result, Run, RunState, TrialKey, dump, load
from bench.store import queries, writes
from bench.store.anonymous import same_once_anonymous
from bench.store.models import ResultRow, RunRow

R = TypeVar("R")

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bench.store.database import Store

FORMAT = 1
MAX_LINE_BYTES = 16 * 2**20
MAX_DEPTH = 64
_BATCH_RESULTS = 500
_BATCH_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written; `sha256` is that of all lines after the manifest."""

    runs: int
    results: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import found. A conflict is an id or a trial that is stored with other content: the stored row stays as it is.
    A row and its published form are the same."""

    runs_new: int = 0
    runs_same: int = 0
    results_new: int = 0
    results_same: int = 0
    conflicts: tuple[str, ...] = ()
    """A sentence each."""


# --- export ----------------------------------------------------------------------------------------------------------------------


def export_jsonl(store: Store, out: BinaryIO | Path, run_ids: Sequence[str] | None = None) -> ExportReport:
    """Writes the runs `run_ids` (all by default) with all their results, excluded ones too. A path appears whole or not at all."""
    chosen = [run for run in store.runs() if run_ids is None or run.id in set(run_ids)]
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


# --- import ----------------------------------------------------------------------------------------------------------------------


def import_jsonl(store: Store, path: Path) -> ImportReport:
    """Reads a file of `export_jsonl` in one transaction. Raises StoreError, naming the line, for anything that is not as it should be."""
    try:
        with ExitStack() as stack:
            raw: BinaryIO = stack.enter_context(path.open("rb"))
            if raw.read(2) == b"\x1f\x8b":
                raw.seek(0)
                raw = cast("BinaryIO", stack.enter_context(gzip.GzipFile(fileobj=raw)))
            else:
                raw.seek(0)
            return _Import(store, path).read(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise StoreError(f"{path}: the compressed file is damaged or cut off ({error}). Nothing was imported") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


class _Import:
    """One import under way: what was counted, and the results that wait for their batch."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._number = 0
        self._stored: dict[str, dict[TrialKey, str]] = {}
        """Run to its trials that have a row, with the row's id."""
        self._kept_out: set[str] = set()
        self._known: set[str] = set()
        self._shared = queries.Shared()
        self._runs_new = self._runs_same = self._results_new = self._results_same = 0
        self._conflicts: list[str] = []

    def read(self, source: BinaryIO) -> ImportReport:
        manifest = self._manifest(source)
        digest = hashlib.sha256()
        runs = results = 0
        batch: list[tuple[int, Result]] = []
        batch_bytes = 0
        with self._store.ingesting() as connection:
            while (line := self._next(source)) is not None:
                digest.update(line)
                data = self._parsed(line)
                kind = data.pop("kind", None)
                if kind == "run":
                    self._flush(connection, batch)
                    self._run(connection, self._record(Run, data))
                    runs += 1
                elif kind == "result":
                    batch.append((self._number, self._record(Result, data)))
                    batch_bytes += len(line)
                    results += 1
                    if len(batch) >= _BATCH_RESULTS or batch_bytes >= _BATCH_BYTES:
                        self._flush(connection, batch)
                        batch_bytes = 0
                else:
                    self._refuse(f"a line of the unknown kind {kind!r}")
            self._flush(connection, batch)
            found = {"runs": runs, "results": results, "sha256": digest.hexdigest()}
            for key, value in found.items():
                if manifest.get(key) != value:
                    raise StoreError(
                        f"{self._path}: the manifest (line 1) promises {key} {manifest.get(key)!r}, the file has {value!r}:"
                        " it was changed or cut off. Nothing was imported"
                    )
        return ImportReport(self._runs_new, self._runs_same, self._results_new, self._results_same, tuple(self._conflicts))

    def _refuse(self, why: str, number: int | None = None) -> NoReturn:
        raise StoreError(f"{self._path}, line {number or self._number}: {why}. Nothing was imported")

    def _next(self, source: BinaryIO) -> bytes | None:
        line = source.readline(MAX_LINE_BYTES + 1)
        if not line:
            return None
        self._number += 1
        if len(line) > MAX_LINE_BYTES:
            self._refuse(f"longer than {MAX_LINE_BYTES} bytes")
        return line

    def _parsed(self, line: bytes) -> dict[str, Json]:
        try:
            data = json.loads(line.decode(), parse_constant=_no_constant)
        except RecursionError:
            self._refuse("nested too deep")
        except ValueError as error:
            self._refuse(f"not valid JSON ({error})")
        if not isinstance(data, dict):
            self._refuse("not a JSON object")
        # Everywhere else the record itself says how deep it goes.
        if any(_deeper_than(data.get(name), MAX_DEPTH) for name in ("conditions", "suite_data", "options")):
            self._refuse(f"nested deeper than {MAX_DEPTH}")
        return data

    def _record(self, cls: type[R], data: Json) -> R:
        try:
            return load(cls, data)
        except ValueError as error:
            self._refuse(f"not a valid {cls.__name__.lower()} ({'; '.join(str(error).splitlines()[1:3]).strip() or error})")

    def _manifest(self, source: BinaryIO) -> dict[str, Json]:
        line = self._next(source)
        if line is None:
            raise StoreError(f"{self._path} is empty")
        manifest = self._parsed(line)
        if manifest.get("kind") != "manifest":
            self._refuse("not a manifest: this is no export of `bench db export`")
        for key, ours in (("format", FORMAT), ("record_version", RECORD_VERSION)):
            theirs = manifest.get(key)
            if not isinstance(theirs, int) or theirs < 1:
                self._refuse(f"the manifest lacks {key}")
            if theirs > ours:
                self._refuse(f"{key} {theirs} is newer than this bench {__version__} knows ({ours}): install a newer bench")
        return manifest

    def _run(self, connection: Connection, run: Run) -> None:
        ours = queries.load_runs(connection, RunRow.id == run.id)
        if not ours:
            try:
                writes.insert_run(connection, run)
            except ValueError as error:
                self._refuse(f"a run that cannot be stored ({error})")
            self._stored[run.id] = {}
            self._runs_new += 1
            return
        # How far a run came is no part of what it is: a later export knows more.
        if not same_once_anonymous(replace(ours[0], state=run.state, finished_at=run.finished_at), run):
            self._conflicts.append(f"line {self._number}: run {run.id} is stored with other content; its results are kept out too")
            self._kept_out.add(run.id)
            return
        self._runs_same += 1
        if run.finished_at is not None and (ours[0].finished_at is None or run.finished_at > ours[0].finished_at):
            writes.finish_run(connection, run.id, RunState(run.state), run.finished_at)

    def _flush(self, connection: Connection, batch: list[tuple[int, Result]]) -> None:
        """Stores those results of the batch that are new, and empties it."""
        kept = [(number, result) for number, result in batch if result.run_id not in self._kept_out]
        self._look_up_runs(connection, kept)
        stored = self._stored_results(connection, [result.id for _, result in kept])
        new = []
        for number, result in kept:
            trials = self._stored[result.run_id]
            key = result.trial.key
            ours = stored.get(result.id)
            if ours is not None:
                self._compare(connection, number, ours, result)
            elif key in trials:
                self._conflicts.append(f"line {number}: the trial of result {result.id} is stored as result {trials[key]}")
            else:
                trials[key] = result.id
                stored[result.id] = result
                new.append(result)
        try:
            self._known |= writes.insert_results(connection, new, self._known)
        except ValueError as error:
            self._refuse(f"a result from line {batch[0][0]} on cannot be stored ({error})", batch[-1][0])
        self._results_new += len(new)
        batch.clear()

    def _look_up_runs(self, connection: Connection, batch: list[tuple[int, Result]]) -> None:
        unseen = {result.run_id for _, result in batch} - self._stored.keys()
        missing = unseen - queries.known_runs(connection, unseen)
        for number, result in batch:
            if result.run_id in missing:
                self._refuse(f"a result of run {result.run_id}, which is neither in the file above it nor in the database", number)
        for run_id in unseen:
            self._stored[run_id] = {key: done.result_id for key, done in queries.load_done(connection, run_id).items()}

    def _stored_results(self, connection: Connection, ids: list[str]) -> dict[str, Result]:
        found = (queries.load_results(connection, self._shared, ResultRow.id.in_(chunk)) for chunk in queries.chunks(ids))
        return {result.id: result for results in found for result in results}

    def _compare(self, connection: Connection, number: int, ours: Result, theirs: Result) -> None:
        # An exclusion is a remark on a result, so it is taken over; our own stays.
        if not same_once_anonymous(replace(ours, excluded_reason=None), replace(theirs, excluded_reason=None)):
            self._conflicts.append(f"line {number}: result {theirs.id} is stored with other content")
            return
        self._results_same += 1
        if theirs.excluded_reason and not ours.excluded_reason:
            writes.exclude(connection, theirs.id, theirs.excluded_reason)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _deeper_than(data: Json, limit: int) -> bool:
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(limit):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
