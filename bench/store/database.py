"""The door to the results: one open database, in the words of the records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from bench.errors import SelectionError, StoreError
from bench.records import Result, Run, RunState, TrialKey, utc_now
from bench.store import judgements, queries, schema, unreadable, writes
from bench.store.engine import BUSY_TIMEOUT_S, Engines, connect
from bench.store.failures import Unreadable, told
from bench.store.judgements import Acceptance, Baseline
from bench.store.location import Location, locate
from bench.store.models import ResultRow, RunRow
from bench.store.queries import Done, Pin

if TYPE_CHECKING:
    from bench.store.exchange import ExportReport
    from bench.store.intake import ImportReport
    from bench.store.pytest_json import PytestReport
    from bench.store.retention import Collected, Retention


class Store:
    """A results database. A context manager; every method is one transaction, so what returned is on the disk.

    All methods raise StoreError where the disk, permissions, a lock or a server stand in the way; rows that were committed stay.
    """

    def __init__(self, location: Location, engines: Engines, *, read_only: bool) -> None:
        self.location = location
        self.notices: list[str] = list(engines.notices)
        self.unread: frozenset[str] = frozenset()
        """Ids of excluded results that do not read, once `results` came to one."""
        self._engines = engines
        self._read_only = read_only
        self._known: set[str] = set()
        self._shared = queries.Shared()

    @classmethod
    def open(
        cls, url: str | Path, *, create: bool = True, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> Store:
        """Opens a path, an SQLite URL or a PostgreSQL URL; a missing database is made, with its folder, unless `create` is False.

        `read_only` never creates or changes anything. A database of an older schema is refused: `upgrade` changes it.
        """
        location = locate(url)
        with told(location):
            if location.path is not None:
                _prepare_file(location.path, create=create and not read_only)
            engines = connect(location, read_only=read_only, busy_timeout_s=busy_timeout_s)
            try:
                with engines.reader.connect() as connection:
                    revision = schema.found_revision(connection, location.shown)
                if revision is None and create and not read_only:
                    with engines.writer.begin() as connection:
                        schema.create(connection, location.shown)
                    with engines.reader.connect() as connection:
                        revision = schema.found_revision(connection, location.shown)
                schema.require_current(location, revision)
            except BaseException:
                engines.writer.dispose()
                raise
        return cls(location, engines, read_only=read_only)

    def close(self) -> None:
        """Gives the connections back. SQLite's log is merged into the file by the last process that closes it."""
        self._engines.writer.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    # --- writing -----------------------------------------------------------------------------------------------------------------

    def add_run(self, run: Run) -> None:
        """Raises ValueError where the id is taken."""
        with self.writing() as connection:
            writes.insert_run(connection, run)

    def finish_run(self, run_id: str, state: RunState, finished_at: str | None, planned_trials: int | None = None) -> None:
        """Sets how far a run came. `finished_at` is UTC in ISO 8601, None when a run is taken up again.

        `planned_trials`: how many trials it has turned out to need, where something is searched.

        Raises SelectionError for an unknown run.
        """
        with self.writing() as connection:
            if not writes.finish_run(connection, run_id, state, finished_at, planned_trials):
                raise SelectionError(f"no run {run_id}")

    def add_result(self, result: Result) -> bool:
        """Stores a result whole, or not at all; when this returns it is on the disk.

        False where its trial (run, case, arm, index, attempt) has a row already, whatever that row holds: the first stays, because
        two processes may resume one run. Raises ValueError for a record that cannot be stored (NaN, an unknown run, an id of another
        trial).
        """
        case_key = result.case.key
        try:
            with self.writing() as connection:
                if writes.taken(connection, result, case_key):
                    return False
                _require_runs(connection, {result.run_id})
                added = writes.insert_results(connection, [result], self._known)
        except IntegrityError:
            # On a server another process may have stored this very trial since we looked.
            with self.reading() as connection:
                if writes.taken(connection, result, case_key):
                    return False
            raise
        self._known |= added
        return True

    def add_results(self, results: Iterable[Result]) -> int:
        """Stores many results in one transaction, all or none, and returns how many were new. Rules as for `add_result`."""
        done: dict[str, set[TrialKey]] = {}
        count = 0

        def new_ones(connection: Connection) -> Iterator[list[Result]]:
            nonlocal count
            for chunk in queries.chunks(results):
                unseen = {result.run_id for result in chunk} - done.keys()
                _require_runs(connection, unseen)
                done.update({run_id: set(queries.load_done(connection, run_id)) for run_id in unseen})
                # Many results share a case, and its key is a hash of all that it holds.
                case_keys = {id(result.case): result.case.key for result in {id(one.case): one for one in chunk}.values()}
                new = []
                for result in chunk:
                    trial = result.trial
                    key = case_keys[id(trial.case)], trial.arm, trial.index, trial.attempt
                    if key not in done[result.run_id]:
                        done[result.run_id].add(key)
                        new.append(result)
                count += len(new)
                yield new

        with self.ingesting() as connection:
            added = writes.insert_batches(connection, new_ones(connection), self._known)
        self._known |= added
        return count

    def exclude(self, result_id: str, reason: str) -> None:
        """Keeps a result out of what is judged. The row stays, and so does the first reason.

        Raises SelectionError for an unknown result.
        """
        if not reason:
            raise ValueError("an exclusion needs a reason")
        with self.writing() as connection:
            if not writes.exclude(connection, result_id, reason):
                raise SelectionError(f"no result {result_id}")

    def exclude_run(self, run_id: str, reason: str) -> int:
        """Excludes every result of a run that is not excluded yet, and returns how many those were.

        Raises SelectionError for an unknown run.
        """
        if not reason:
            raise ValueError("an exclusion needs a reason")
        with self.writing() as connection:
            if not queries.known_runs(connection, [run_id]):
                raise SelectionError(f"no run {run_id}")
            return writes.exclude_run(connection, run_id, reason)

    def pin(self, run_id: str, reason: str) -> None:
        """Keeps a run whole whatever its age: `collect` takes nothing of it. Raises SelectionError for an unknown run."""
        with self.writing() as connection:
            if not queries.known_runs(connection, [run_id]):
                raise SelectionError(f"no run {run_id}")
            writes.pin(connection, Pin(run_id, reason, utc_now("seconds")))

    def unpin(self, run_id: str, reason: str | None = None) -> int:
        """Takes the pin of a run for this reason away, or all of them, and returns how many there were."""
        with self.writing() as connection:
            return writes.unpin(connection, run_id, reason)

    def set_baseline(self, baseline: Baseline) -> None:
        """Lets a name mean a run from now on, or nothing. Raises SelectionError for an unknown run."""
        with self.writing() as connection:
            if baseline.run_id is not None and not queries.known_runs(connection, [baseline.run_id]):
                raise SelectionError(f"no run {baseline.run_id}")
            judgements.add_baseline(connection, baseline)

    def accept(self, accepted: Sequence[Acceptance]) -> None:
        """Stores what somebody accepts, all or none."""
        with self.writing() as connection:
            judgements.add_acceptances(connection, accepted)

    # --- reading -----------------------------------------------------------------------------------------------------------------

    def find_run(self, text: str) -> Run:
        """The run with this full id, unique prefix of an id, or label; or the `latest`. Raises SelectionError for none or several."""
        with self.reading() as connection:
            return queries.find_run(connection, text)

    def runs(self, *, suite: str | None = None, ids: Sequence[str] | None = None) -> list[Run]:
        """Runs, newest first: all of them, or those of a suite, or of these ids that are there."""
        with self.reading() as connection:
            of_suite = None if suite is None else RunRow.suite == suite
            if ids is None:
                return queries.load_runs(connection, of_suite)
            some = [run for chunk in queries.chunks(ids) for run in queries.load_runs(connection, RunRow.id.in_(chunk))]
            return sorted(some, key=lambda run: (run.started_at, run.id), reverse=True)

    def find_result(self, text: str) -> Result:
        """The result with this full id or unique prefix, excluded or not. Raises SelectionError for none or several."""
        with self.reading() as connection:
            result_id = queries.find_result_id(connection, text)
            return queries.load_results(connection, self._shared, ResultRow.id == result_id)[0]

    def find_result_id(self, text: str) -> tuple[str, str]:
        """The ids of the result and of its run, whether it reads or not. Raises SelectionError as `find_result` does."""
        with self.reading() as connection:
            result_id = queries.find_result_id(connection, text)
            return result_id, connection.execute(select(ResultRow.run_id).where(ResultRow.id == result_id)).scalar_one()

    def exclusions(self, run_id: str) -> dict[str, str]:
        """The reason of each excluded result of a run, by its id."""
        with self.reading() as connection:
            return queries.load_exclusions(connection, run_id)

    def results(
        self, run_ids: Sequence[str], *, include_excluded: bool = False, metrics: Sequence[str] | None = None
    ) -> list[Result]:
        """Results of some runs, run by run as given, in the order in which their trials were planned.

        With `metrics` each holds only those measurements, and neither checks nor logs: for reading, never for storing.

        Excluded ones that do not read are left out, and kept in `unread`.
        """
        wanted = list(dict.fromkeys(run_ids))
        found: list[Result] = []
        with self.reading() as connection:
            for chunk in queries.chunks(wanted):
                condition: ColumnElement[bool] = ResultRow.run_id.in_(chunk)
                if not include_excluded:
                    condition &= ResultRow.excluded_reason.is_(None)
                try:
                    found += queries.load_results(connection, self._shared, condition, metrics)
                except (Unreadable, DBAPIError) as error:
                    left_out = unreadable.aside(connection, error)
                    if not left_out:
                        raise
                    found += queries.load_results(connection, self._shared, condition & ResultRow.id.not_in(left_out), metrics)
                    self.unread |= left_out
        place = {run_id: number for number, run_id in enumerate(wanted)}
        return sorted(found, key=lambda result: place[result.run_id])

    def running(self) -> list[tuple[str, str]]:
        """Id and start of each run that is marked running, whether it reads or not."""
        with self.reading() as connection:
            return queries.running(connection)

    def count_runs(self) -> int:
        """How many runs there are."""
        with self.reading() as connection:
            return queries.count_runs(connection)

    def count_results(self) -> int:
        """How many results there are, excluded ones too."""
        with self.reading() as connection:
            return queries.count_results(connection)

    def done(self, run_id: str) -> dict[TrialKey, Done]:
        """The trials of a run that have a row, by (case key, arm, index, attempt); excluded ones too."""
        with self.reading() as connection:
            return queries.load_done(connection, run_id)

    def pins(self) -> list[Pin]:
        """Runs that `collect` leaves whole, and why."""
        with self.reading() as connection:
            return queries.load_pins(connection)

    def baselines(self) -> list[Baseline]:
        """The names that mean a run, by name."""
        with self.reading() as connection:
            return judgements.baselines(connection)

    def acceptances(self) -> list[Acceptance]:
        """What was accepted, past its end too, oldest first."""
        with self.reading() as connection:
            return judgements.acceptances(connection)

    # --- exchange and check ------------------------------------------------------------------------------------------------------

    def export_jsonl(self, out: BinaryIO | Path, run_ids: Sequence[str] | None = None) -> ExportReport:
        """Writes runs with their results as JSON Lines; see bench.store.exchange. A path that ends in `.gz` is compressed."""
        from bench.store.exchange import export_jsonl

        return export_jsonl(self, out, run_ids)

    def export_pytest_benchmark(self, out: BinaryIO | Path, run_id: str) -> PytestReport:
        """Writes the times of a run as pytest-benchmark's JSON; see bench.store.pytest_json."""
        from bench.store.pytest_json import export_pytest_benchmark

        return export_pytest_benchmark(self, out, run_id)

    def import_file(self, path: Path, format_: str | None = None) -> ImportReport:
        """Reads what `export_jsonl` or another tool wrote, all or nothing; a second time adds nothing. See bench.store.importers.

        Raises StoreError naming file and line.
        """
        from bench.store.importers import import_file

        return import_file(self, path, format_)

    def merge(self, other: Store) -> ImportReport:
        """Takes in what `other` has, all or nothing; see bench.store.merge."""
        from bench.store.merge import merge

        return merge(self, other)

    def collect(self, retention: Retention, *, now: str | None = None, dry_run: bool = False) -> Collected:
        """Drops samples and logs that are older than `retention` says; see bench.store.retention. `now` is UTC in ISO 8601."""
        from bench.store.retention import collect

        return collect(self, retention, now=now or utc_now("seconds"), dry_run=dry_run)

    def check(self, *, running: bool = True) -> list[str]:
        """What is wrong with the database, a sentence each; [] where it is sound. Reads every row.

        `running`: whether a run that is still marked so counts as well. Who can tell whether its process lives leaves it out.
        """
        from bench.store.check import check

        with self.reading() as connection:
            return check(connection, self.location.shown, running=running)

    @contextmanager
    def ingesting(self) -> Iterator[Connection]:
        """One transaction for many rows, with other writers kept out until it ends."""
        with self.writing() as connection:
            writes.lock_for_ingest(connection)
            yield connection

    # --- transactions ------------------------------------------------------------------------------------------------------------

    def compact(self) -> tuple[str, ...]:
        """Gives free space back to the file system; returns notices where that must wait."""
        if self.location.path is None:
            return ("the server's autovacuum makes the space free for new rows; VACUUM FULL would give it back to the disk",)
        connection = self._engines.writer.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            return (f"the file keeps its size for now ({error}): the free space is used for new rows",)
        finally:
            connection.close()
        return ()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that may change rows."""
        if self._read_only:
            raise StoreError(f"database {self.location.shown} was opened for reading only")
        with told(self.location), self._engines.writer.begin() as connection, unreadable.named(connection, self.location):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that sees one state and changes nothing."""
        with told(self.location), self._engines.reader.connect() as connection, unreadable.named(connection, self.location):
            yield connection


def _require_runs(connection: Connection, run_ids: set[str]) -> None:
    missing = run_ids - queries.known_runs(connection, run_ids)
    if missing:
        raise ValueError(f"results of a run that is not stored: {', '.join(sorted(missing))}")


def _prepare_file(path: Path, *, create: bool) -> None:
    """Makes the folder of a new database. Raises StoreError where there can be none."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder: give the path of a file, such as {path / 'bench.db'}")
    if path.exists():
        return
    if not create:
        raise StoreError(f"no database at {path}. `bench run` makes one, `bench db import` reads published results into one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {path.parent} for the database cannot be made: {error.strerror}. Give another file with --db"
        ) from error
