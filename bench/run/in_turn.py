"""Measures cases in several versions of what is under test, in turn and on one device: A B B A, a fork server for each version.

All of it is one run, whose rows carry the version's name as their arm and the number of their pair, so that whatever the machine does
meanwhile is in all of them alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import BenchError, HarnessError, StoreError
from bench.machine import Device, harness_version, scrub_data
from bench.plan.stored import foretold_of
from bench.processes import adopting_orphans
from bench.records import Case, Json, Result, RevisionItem, Run, RunState, Status, Trial, dump, utc_now
from bench.run.commands import run_command
from bench.run.folders import RunFolder
from bench.run.interrupt import stop_requests
from bench.run.limits import above_data_sheet, invalid, unthrottled
from bench.run.locks import device_lock, run_lock
from bench.run.options import RunOptions
from bench.run.order import trial_seed
from bench.run.plan import protocol_of
from bench.run.progress import Progress, silent
from bench.run.rows import RowMaker, describe
from bench.run.versions import Version
from bench.run.worker import Measured, Worker

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.store import Store
    from bench.suite import Suite

_PAUSE_STEP_S = 0.1


class VersionFailed(BenchError):
    """A version that was rebuilt cannot even start a worker. The text says which and why."""


class Stopped(BenchError):
    """A signal asked us to stop. What was measured until then is stored."""


class _VersionWorker(Worker):
    """A worker that finds one version's modules first."""

    def __init__(
        self,
        version: Version,
        folder: Path,
        device: Device,
        *,
        threads: int,
        weights: str | None,
        stop: Callable[[], bool],
        notice: Callable[[str], None],
    ) -> None:
        folder.mkdir()
        super().__init__(folder, device, threads=threads, plugins=version.plugins, stop=stop, notice=notice, weights=weights)
        self._import_path = version.import_path

    def _server_variables(self, trial: Trial) -> dict[str, str]:
        found = super()._server_variables(trial)
        path = os.pathsep.join(filter(None, (*self._import_path, found.get("PYTHONPATH"))))
        return {**found, "PYTHONPATH": path} if path else found


class InTurn:
    """Versions that are measured in turn. `in_turn` makes one."""

    def __init__(
        self,
        run_id: str,
        suite: Suite,
        store: Store,
        device: Device,
        catalogue: Catalogue,
        options: RunOptions,
        seed: int,
        folder: RunFolder,
        stop: Callable[[], bool],
        progress: Callable[[Progress], None],
    ) -> None:
        self.run_id = run_id
        self._suite = suite
        self._store = store
        self._device = device
        self._catalogue = catalogue
        self._options = options
        self._seed = seed
        self._folder = folder
        self._stop = stop
        self._progress = progress
        self._protocol = protocol_of(suite, options)
        self._workers: dict[str, _VersionWorker] = {}
        self._rows: dict[str, RowMaker] = {}
        self._blocks = 0
        self.count = 0
        """Rows that were stored."""

    def measure(self, case: Case, versions: Sequence[Version], pairs: int, *, first_pair: int = 0) -> list[Result]:
        """`pairs` trials of the case in each version, A B B A. Ends after the first pair in which some version has no number.

        `first_pair` goes on where an earlier call for the same versions ended. Raises VersionFailed and Stopped.
        """
        found: list[Result] = []
        turns = (tuple(versions), tuple(versions)[::-1])
        for pair in range(first_pair, first_pair + pairs):
            own = [
                self._trial(
                    Trial(case, pair, self._blocks, len(found) + place, version.name, pair), version, pair - first_pair, pairs
                )
                for place, version in enumerate(turns[pair % 2])
            ]
            found += own
            if any(row.status is not Status.OK for row in own):
                break
        self._blocks += 1
        return found

    def close(self) -> None:
        """Ends the workers of all versions."""
        for worker in self._workers.values():
            worker.close()

    def leave(self, version: Version) -> None:
        """Ends the worker of a version that is not needed any more."""
        if (worker := self._workers.pop(version.name, None)) is not None:
            worker.close()

    def _worker(self, version: Version) -> _VersionWorker:
        if version.name not in self._workers:
            self._workers[version.name] = _VersionWorker(
                version,
                self._folder.path / version.name,
                self._device,
                threads=self._suite.threads,
                weights=self._options.weights,
                stop=self._stop,
                notice=self._remark,
            )
            self._rows[version.name] = RowMaker(
                self.run_id, self._suite, self._device, self._options, trials=self._protocol.trials, seed=self._seed
            )
        return self._workers[version.name]

    def _trial(self, trial: Trial, version: Version, done: int, pairs: int) -> Result:
        worker = self._worker(version)
        seed, started_at = trial_seed(self._seed, trial), utc_now()
        foretold = foretold_of(trial.case)
        try:
            measured = unthrottled(lambda: worker.measure(trial, self._protocol, seed), self._pause)
        except HarnessError as error:
            if not version.import_path:
                raise
            raise VersionFailed(f"{version.name} cannot be measured: {str(error).splitlines()[0]}") from error
        if measured is None:
            raise Stopped("stopped; what was measured until then is stored")
        reply = measured.answer.reply
        implementations = [self._catalogue.implementation(slot, name) for slot, name in trial.case.subject.items()]
        exact = all(implementation.tolerance is None for implementation in implementations)
        if (
            reply.status is Status.OK
            and (reason := above_data_sheet(trial.case, reply, self._device, in_its_dtype=exact)) is not None
        ):
            measured = invalid(measured, reason)
        worker.keep(trial, measured.answer.reply)
        measured = _with_facts(measured, version)
        variables = worker.variables(trial)
        rows = self._rows[version.name]
        result = rows.row(trial, measured, seed=seed, started_at=started_at, variables=variables, foretold=foretold)
        if not self._store.add_result(result):
            raise HarnessError(f"the trial of {describe(result)} in {version.name} has a row already")
        worker.tidy()
        self.count += 1
        self._progress(Progress(f"{version.name}: {describe(result)}", done, pairs, 0.0, result))
        return result

    def _remark(self, text: str) -> None:
        self._progress(Progress(text, 0, 0, 0.0))

    def _pause(self, seconds: float) -> bool:
        self._remark(f"clocks are held back by heat or hardware: waiting {seconds:g} s before the trial is measured again")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._stop():
                return False
            time.sleep(_PAUSE_STEP_S)
        return True


def _with_facts(measured: Measured, version: Version) -> Measured:
    """The trial with the facts of its version: from out here only the packages of today can be read."""
    reply = measured.answer.reply
    if not version.facts:
        return measured
    reply = dataclasses.replace(reply, runtime={**reply.runtime, **dict(version.facts)})
    return dataclasses.replace(measured, answer=dataclasses.replace(measured.answer, reply=reply))


@contextlib.contextmanager
def in_turn(
    suite: Suite,
    store: Store,
    device: Device,
    catalogue: Catalogue,
    options: RunOptions,
    revision: tuple[RevisionItem, ...],
    versions: Mapping[str, Sequence[RevisionItem]],
    *,
    planned: int,
    progress: Callable[[Progress], None] = silent,
    late: Callable[[], bool] = lambda: False,
) -> Iterator[InTurn]:
    """A run with an arm for each version, under the locks of run and device. Its state follows from how the block is left.

    Args:
        options: with `reason` and `parent_run_id` of this run.
        revision: what lies here.
        versions: by the arm's name, what it will measure as far as that is known by now; kept in the run's options.
        planned: about how many trials there will be.
        late: asked while the device is held by somebody else; once it is true there is no time left to wait.

    Raises LockError where the device is held and the options forbid to wait, StillHeldError where it was held until `late`, and Stopped.
    """
    from bench.store import new_id

    run_id, seed = new_id(), secrets.randbelow(2**31)
    command = run_command(options)

    def remark(text: str) -> None:
        progress(Progress(text, 0, planned, 0.0))

    with stop_requests() as stop, adopting_orphans(), contextlib.ExitStack() as held:
        wait = options.wait_for_lock
        ours = held.enter_context(run_lock(run_id, command=command, wait=wait, waiting=remark, stop=stop))
        lock = device_lock(device.lock_name, run_id=run_id, command=command, wait=wait, waiting=remark, stop=stop, late=late)
        if not ours or not held.enter_context(lock):
            raise Stopped("stopped while it waited for the device")
        folder = RunFolder()
        broken = False
        held.callback(lambda: folder.keep() if broken else folder.remove())
        turns = InTurn(run_id, suite, store, device, catalogue, options, seed, folder, stop, progress)
        held.callback(turns.close)
        arms: dict[str, Json] = {name: [dump(item) for item in items] for name, items in versions.items()}
        store.add_run(
            Run(
                id=run_id,
                suite=suite.name,
                suite_file=options.suite_file,
                suite_data=suite.to_data(),
                options=scrub_data({**options.to_data(), "arms": arms}),
                question=suite.question,
                seed=seed,
                command=command,
                device=device.kind,
                started_at=utc_now(),
                state=RunState.RUNNING,
                planned_trials=planned,
                revision=revision,
                label=options.label,
                reason=options.reason,
                harness_version=harness_version(),
                parent_run_id=options.parent_run_id,
            )
        )
        state = RunState.BROKEN
        try:
            yield turns
            state = RunState.FINISHED
        except (Stopped, KeyboardInterrupt):
            state = RunState.INTERRUPTED
            raise
        except HarnessError as error:
            broken = True
            raise HarnessError(f"{error}\nThe run's files are kept in {folder.path}") from error
        finally:
            # Where the database takes nothing more, the error on its way says so already.
            with contextlib.suppress(StoreError):
                store.finish_run(run_id, state, utc_now(), turns.count)
