"""How runs and results from elsewhere come into a database: by their natural keys, once, and never over what is stored.

A row that is there already is counted and left alone; its published form and its thinned form count as the same. A row with the same id
or the same trial and other content is a conflict: told, and kept out. An exclusion is a remark on a result, so it is taken over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.records import Result, Run, RunState, Status, TrialKey
from bench.store import queries, writes
from bench.store.anonymous import same_once_anonymous
from bench.store.light import equally_light
from bench.store.models import ResultRow, RunRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

_BATCH_RESULTS = 500
_BATCH_BYTES = 32 * 2**20


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
    results_new_not_ok: int = 0
    """Of `results_new`."""
    new_runs: tuple[str, ...] = ()
    """The ids of the runs that are new."""


class Refused(ValueError):
    """A record that cannot be stored at all; `where` says which, `str()` why."""

    def __init__(self, where: str, why: str) -> None:
        self.where = where
        super().__init__(why)


class Intake:
    """One import under way, inside the open transaction of `connection`: what was counted, and the results that wait for their batch.

    `where` names a record to people: `line 3`, a file.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[str, dict[TrialKey, str]] = {}
        """Run to its trials that have a row, with the row's id."""
        self._kept_out: set[str] = set()
        self._known: set[str] = set()
        self._shared = queries.Shared()
        self._batch: list[tuple[str, Result]] = []
        self._batch_bytes = 0
        self._new_runs: list[str] = []
        self._runs_same = self._results_new = self._results_same = self._not_ok = 0
        self._conflicts: list[str] = []

    def run(self, run: Run, where: str) -> None:
        """Raises Refused for a run that cannot be stored."""
        self._flush()
        ours = queries.load_runs(self._connection, RunRow.id == run.id)
        if not ours:
            try:
                writes.insert_run(self._connection, run)
            except ValueError as error:
                raise Refused(where, f"a run that cannot be stored ({error})") from error
            self._stored[run.id] = {}
            self._new_runs.append(run.id)
            return
        # How far a run came is no part of what it is: a later export knows more.
        if not same_once_anonymous(replace(ours[0], state=run.state, finished_at=run.finished_at), run):
            self._conflicts.append(f"{where}: run {run.id} is stored with other content; its results are kept out too")
            self._kept_out.add(run.id)
            return
        self._runs_same += 1
        if run.finished_at is not None and (ours[0].finished_at is None or run.finished_at > ours[0].finished_at):
            writes.finish_run(self._connection, run.id, RunState(run.state), run.finished_at)

    def result(self, result: Result, where: str, size_bytes: int = 0) -> None:
        """`size_bytes` is about what the record takes, so that few large ones make a batch too. Raises Refused, for any of its batch."""
        self._batch.append((where, result))
        self._batch_bytes += size_bytes
        if len(self._batch) >= _BATCH_RESULTS or self._batch_bytes >= _BATCH_BYTES:
            self._flush()

    def known(self, result_ids: Iterable[str]) -> set[str]:
        """Those of these results that are stored, in whichever run."""
        return queries.known_results(self._connection, result_ids)

    def count_same(self, *, runs: int = 0, results: int = 0) -> None:
        """Counts what the caller found stored already."""
        self._runs_same += runs
        self._results_same += results

    def finish(self) -> ImportReport:
        """Stores what waits and counts. Raises Refused."""
        self._flush()
        counts = len(self._new_runs), self._runs_same, self._results_new, self._results_same
        return ImportReport(*counts, tuple(self._conflicts), self._not_ok, tuple(self._new_runs))

    def _flush(self) -> None:
        """Stores those results of the batch that are new, and empties it."""
        kept = [(where, result) for where, result in self._batch if result.run_id not in self._kept_out]
        self._batch, self._batch_bytes = [], 0
        if not kept:
            return
        self._look_up_runs(kept)
        stored = self._stored_results([result.id for _, result in kept])
        new = []
        for where, result in kept:
            trials = self._stored[result.run_id]
            key = result.trial.key
            ours = stored.get(result.id)
            if ours is not None:
                self._compare(where, ours, result)
            elif key in trials:
                self._conflicts.append(f"{where}: the trial of result {result.id} is stored as result {trials[key]}")
            else:
                trials[key] = result.id
                stored[result.id] = result
                new.append(result)
        try:
            self._known |= writes.insert_results(self._connection, new, self._known)
        except ValueError as error:
            raise Refused(kept[-1][0], f"a result from {kept[0][0]} on cannot be stored ({error})") from error
        self._results_new += len(new)
        self._not_ok += sum(result.status is not Status.OK for result in new)

    def _look_up_runs(self, batch: list[tuple[str, Result]]) -> None:
        unseen = {result.run_id for _, result in batch} - self._stored.keys()
        missing = unseen - queries.known_runs(self._connection, unseen)
        for where, result in batch:
            if result.run_id in missing:
                raise Refused(where, f"a result of run {result.run_id}, which is neither in the file above it nor in the database")
        for run_id in unseen:
            self._stored[run_id] = {key: done.result_id for key, done in queries.load_done(self._connection, run_id).items()}

    def _stored_results(self, ids: list[str]) -> dict[str, Result]:
        found = (queries.load_results(self._connection, self._shared, ResultRow.id.in_(chunk)) for chunk in queries.chunks(ids))
        return {result.id: result for results in found for result in results}

    def _compare(self, where: str, ours: Result, theirs: Result) -> None:
        # Our own remark stays.
        mine, yours = equally_light(replace(ours, excluded_reason=None), replace(theirs, excluded_reason=None))
        if not same_once_anonymous(mine, yours):
            self._conflicts.append(f"{where}: result {theirs.id} is stored with other content")
            return
        self._results_same += 1
        if theirs.excluded_reason and not ours.excluded_reason:
            writes.exclude(self._connection, theirs.id, theirs.excluded_reason)
