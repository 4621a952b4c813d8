"""The only door to the worker: runs a plan, and commits every trial's row before the next one takes the device.

A row is made and stored while the next trial of its block is forked and imports, or before an operator is compiled or a server started
for that one: see `once_begun` in worker.py and supervisor.py.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import HarnessError, StoreError
from bench.machine import Device, harness_version, revision, scrub_data
from bench.plan.stored import foretold_of
from bench.processes import adopting_orphans
from bench.records import Case, Reply, Result, Run, RunState, Status, Trial, TrialKey, dump, utc_now
from bench.run.canaries import is_canary
from bench.run.commands import run_command
from bench.run.folders import FolderError, RunFolder
from bench.run.interrupt import stop_requests
from bench.run.limits import above_data_sheet, invalid, unthrottled
from bench.run.locks import device_locks, run_lock
from bench.run.options import RunOptions
from bench.run.order import trial_seed
from bench.run.plan import Plan, refused
from bench.run.preflight import PREFLIGHT
from bench.run.progress import Progress, RunSummary, silent
from bench.run.rank_devices import gpus_of_ranks
from bench.run.ranks import Answer
from bench.run.rows import RowMaker, describe
from bench.run.turns import Turns
from bench.run.worker import Measured, Worker

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.store import Store
    from bench.suite import Suite

SETTLES = (Status.UNAVAILABLE, Status.UNSUPPORTED, Status.INCORRECT)
"""What a case's first trial finds for all of them: the others get the same row without a process."""


def execute(
    plan: Plan,
    suite: Suite,
    store: Store,
    device: Device,
    catalogue: Catalogue,
    options: RunOptions,
    *,
    progress: Callable[[Progress], None] = silent,
    clock: Callable[[], float] = time.monotonic,
    resumed: Run | None = None,
    as_part: bool = False,
    replan: Callable[[Plan], Plan] = lambda plan: plan,
) -> RunSummary:
    """Measures the trials of `plan`, a row each, in a new run; or those that `resumed` lacks, in that one.

    The first Ctrl-C or TERM ends the trial in progress without a row and returns with state INTERRUPTED. To wait takes of the budget.

    Raises LockError (StillHeldError where the budget was over before the device was free), DeviceError, StoreError (rows before it are
    stored; its text says how to go on) and HarnessError (the run is BROKEN then).

    Args:
        progress: told of every row and of every wait.
        clock: seconds; what the budget is counted by.
        as_part: whether another process holds the run that is `resumed`, and will say how it ended.
        replan: called once nobody else can be at this run or on this device; gives the plan to follow.
    """
    from bench.store import new_id

    run_id = resumed.id if resumed else new_id()
    command = run_command(options)
    began = clock()
    with stop_requests() as stop, adopting_orphans():

        def remark(text: str) -> None:
            progress(Progress(text, 0, len(plan.trials), plan.estimated_s))

        def late() -> bool:
            return options.over_budget(clock() - began)

        wait = options.wait_for_lock
        # The run first, then the device, in every process: so no two wait for each other.
        with (
            contextlib.nullcontext(enter_result=True)
            if as_part
            else run_lock(run_id, command=command, wait=wait, waiting=remark, stop=stop, late=late)
        ) as ours:
            if not ours:
                return RunSummary(run_id, RunState.INTERRUPTED, len(plan.trials), {})
            names = _lock_names(device, plan)
            lock = device_locks(names, run_id=run_id, command=command, wait=wait, waiting=remark, stop=stop, late=late)
            with lock as held:
                if not held:
                    return RunSummary(run_id, RunState.INTERRUPTED, len(plan.trials), {})
                # Under the locks: until a moment ago another process may have been at this run.
                plan = replan(plan)
                done = _rows_before(resumed, plan, store)
                run = None if resumed else new_run(run_id, plan, suite, device, options, command)
                folder = RunFolder()
                execution = _Execution(plan, suite, store, device, catalogue, options, progress, clock, run_id, done, stop, folder)
                return execution.run(run, began, keeps_state=not as_part)


def _lock_names(device: Device, plan: Plan) -> list[str]:
    """Of the device, and of the GPUs that further ranks take."""
    ranks = max((trial.case.world_size for trial in plan.trials), default=1)
    return [used.lock_name for used in gpus_of_ranks(device, ranks)]


def _rows_before(resumed: Run | None, plan: Plan, store: Store) -> dict[TrialKey, Status]:
    """The trials of the plan that have a row already, with its status."""
    if resumed is None:
        return {}
    stored = {key: row.status for key, row in store.done(resumed.id).items()}
    keys = [trial.key for block in plan.in_turn(lambda trial: stored.get(trial.key)) for trial in block]
    return {key: stored[key] for key in keys if key in stored}


def new_run(run_id: str, plan: Plan, suite: Suite, device: Device, options: RunOptions, command: str) -> Run:
    """The record of a run that begins now."""
    return Run(
        id=run_id,
        suite=suite.name,
        suite_file=options.suite_file,
        suite_data=suite.to_data(),
        options=scrub_data(options.to_data()),
        question=suite.question,
        seed=plan.seed,
        command=command,
        device=device.kind,
        started_at=utc_now(),
        state=RunState.RUNNING,
        planned_trials=len(plan.trials),
        revision=revision(suite.under_test, plugins=[Path(path) for path in options.plugins], root=options.suite_path),
        label=options.label,
        reason=options.reason,
        harness_version=harness_version(),
        parent_run_id=options.parent_run_id,
    )


class _Execution:
    """The state of one call of `execute`."""

    def __init__(
        self,
        plan: Plan,
        suite: Suite,
        store: Store,
        device: Device,
        catalogue: Catalogue,
        options: RunOptions,
        progress: Callable[[Progress], None],
        clock: Callable[[], float],
        run_id: str,
        done: Mapping[TrialKey, Status],
        stop: Callable[[], bool],
        folder: RunFolder,
    ) -> None:
        from bench.suite import label_of

        self._plan = plan
        self._store = store
        self._options = options
        self._progress = progress
        self._clock = clock
        self._run_id = run_id
        self._done = done
        self._stop = stop
        self._folder = folder
        self._worker = Worker(
            folder.path,
            device,
            threads=suite.threads,
            plugins=options.plugins,
            stop=stop,
            notice=lambda text: self._tell(text),
            weights=options.weights,
        )
        self._turns = Turns(plan, done)
        self._label = label_of(suite.to_data())
        self._canaries = {case.key for case in plan.cases if is_canary(case, suite.workload)}
        self._rows: list[Result] = []
        self._not_stored: Callable[[], None] | None = None
        """Makes and commits the row of the trial before."""
        self._ok = 0
        self._answered = False
        """Whether this call has measured a trial that answers the suite's question."""
        self._guessed_s = 0.0
        self._spent_s = 0.0
        self._keep_folder = False
        self._device = device
        self._catalogue = catalogue
        self._settled: dict[str, Reply] = {}
        self._refusals = plan.refusals or refused({case.key: case for case in plan.cases}, catalogue)
        self._row_maker = RowMaker(run_id, suite, device, options, trials=plan.protocol.trials, seed=plan.seed)
        self._shown_axes = tuple(axis for axis, values in suite.sweep.items() if len(values) > 1)
        if plan.searching is not None:
            self._shown_axes += (plan.searching.search.axis,)

    def run(self, new: Run | None, began: float, *, keeps_state: bool) -> RunSummary:
        """All blocks, to the end, the budget or a signal. The run is stored once its server stands: no run without a torch.

        `began`: when the budget's time began, by the clock. `keeps_state`: whether it is ours to store how far the run came.
        """
        state = RunState.BROKEN
        before = None if new is not None else self._store.find_run(self._run_id)
        stored = new is None
        try:
            self._start()
            if new is not None:
                self._store.add_run(new)
                stored = True
            elif keeps_state:
                self._store.finish_run(self._run_id, RunState.RUNNING, None)
            state = self._all_blocks(began)
        except HarnessError as error:
            self._keep_folder = True
            further = f"\n{self._how_to_go_on()}" if stored else ""
            raise HarnessError(f"{error}\nThe run's files are kept in {self._folder.path}{further}") from error
        except FolderError as error:
            raise FolderError(f"{error}\n{self._how_to_go_on()}" if stored else str(error)) from error
        except KeyboardInterrupt:
            state = RunState.INTERRUPTED
            raise
        finally:
            self._worker.close()
            if self._keep_folder:
                self._folder.keep()
            else:
                self._folder.remove()
            ended_at = None
            if before is not None and before.state is RunState.FINISHED and not self._rows:
                # It lacked nothing and got nothing: it ended when it did.
                state, ended_at = before.state, before.finished_at
            if stored and keeps_state:
                self._finish(state, ended_at or utc_now())
        counts = Counter(row.status for row in self._rows)
        duration_s = self._clock() - began
        ok_before = sum(status is Status.OK and key[0] not in self._canaries for key, status in self._done.items())
        return RunSummary(
            self._run_id, state, self._turns.planned, counts, len(self._done), self._ok, ok_before, duration_s, tuple(self._rows)
        )

    def _start(self) -> None:
        """Starts the server, unless every answer is known without one."""
        for trial in self._turns.known():
            if trial.case.key not in self._refusals:
                self._worker.start(trial)
                return

    def _all_blocks(self, began: float) -> RunState:
        for block in self._turns.blocks():
            if self._budget_is_spent(began, block, first=not self._answered):
                left = self._turns.planned - len(self._done) - len(self._rows)
                at_least = "at least " if self._plan.searching else ""
                self._tell(f"the budget is spent; {at_least}{left} trials are left")
                return RunState.BUDGET
            try:
                for trial in block:
                    if self._stop() or not self._trial(trial):
                        return RunState.INTERRUPTED
            finally:
                self._store_row()
            self._worker.leave(trial.case for trial in block)
            for subject, found in self._turns.ended(block):
                self._tell(f"{self._label(subject)}: {found}")
        return RunState.FINISHED

    def _budget_is_spent(self, began: float, block: list[Trial], *, first: bool) -> bool:
        if self._options.budget_s is None:
            return False
        spent_s = self._clock() - began
        # The first block that answers anything always runs: a budget below its length would otherwise never measure it.
        return not first and spent_s + self._plan.seconds(block) * self._pace > self._options.budget_s

    def _trial(self, trial: Trial) -> bool:
        """Measures it; False where we were asked to stop. Stores the row of the trial before, and leaves its own to `_store_row`."""
        seed = trial_seed(self._plan.seed, trial)
        started_at = utc_now()
        foretold = foretold_of(trial.case)  # before the trial: one that knew its outcome would be none
        refusal = self._refusals.get(trial.case.key) or self._settled.get(trial.case.key)
        if refusal is not None:
            measured: Measured | None = Measured(Answer(refusal, None, ()), None, {}, "", 0.0)
        else:
            protocol = self._plan.protocol
            measured = unthrottled(lambda: self._worker.measure(trial, protocol, seed, self._store_row), self._pause)
        self._store_row()
        if measured is None:
            return False
        reply = measured.answer.reply
        if reply.status is Status.OK and (reason := self._above_data_sheet(trial.case, reply)) is not None:
            measured = invalid(measured, reason)
        if refusal is None:
            self._worker.keep(trial, measured.answer.reply)
        if refusal is None and reply.status in SETTLES:
            reason = f"as trial {trial.index} of this case found: {reply.reason}"
            self._settled[trial.case.key] = Reply(reply.status, reason, error_type=reply.error_type, phase=PREFLIGHT)
        found = measured

        def store() -> None:
            variables = self._worker.variables(trial)
            row = self._row_maker.row(trial, found, seed=seed, started_at=started_at, variables=variables, foretold=foretold)
            self._commit(row, found.directory)

        self._not_stored = store
        return True

    def _store_row(self) -> None:
        """Commits the row of the trial before, if that has not been done. Whatever comes of it, it is not tried twice."""
        store, self._not_stored = self._not_stored, None
        if store is not None:
            store()

    def _above_data_sheet(self, case: Case, reply: Reply) -> str | None:
        implementations = [self._catalogue.implementation(slot, name) for slot, name in case.subject.items()]
        exact = all(implementation.tolerance is None for implementation in implementations)
        return above_data_sheet(case, reply, self._device, in_its_dtype=exact)

    def _pause(self, seconds: float) -> bool:
        self._tell(f"clocks are held back by heat or hardware: waiting {seconds:g} s before the trial is measured again")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._stop():
                return False
            time.sleep(0.1)
        return True

    def _commit(self, result: Result, directory: Path | None) -> None:
        """Stores a row, and removes the `directory` of its trial."""
        try:
            added = self._store.add_result(result)
        except StoreError as error:
            raise StoreError(self._rescue(result, directory, error)) from error
        if directory is not None:
            self._worker.tidy(directory)
        if not added:
            raise HarnessError(f"the trial of {describe(result)} has a row already, though this process alone holds the device")
        self._rows.append(result)
        self._turns.stored(result)
        canary = bool(self._canaries) and result.case.key in self._canaries
        self._ok += result.status is Status.OK and not canary
        if result.phase != PREFLIGHT:
            self._spent_s += result.duration_s or 0.0
            self._guessed_s += self._plan.seconds([result.trial])
            self._answered = self._answered or not canary
        self._tell(describe(result, self._shown_axes, self._label(result.case.subject)), result)

    def _rescue(self, result: Result, directory: Path | None, error: StoreError) -> str:
        """Keeps the row that the database did not take; says where it is and how to go on."""
        self._keep_folder = True
        path = (directory or self._folder.path) / "result.json"
        kept = (
            f"The row that could not be stored is kept as {path}; its trial was not started."
            if directory is None
            else f"The files of the trial that could not be stored are kept in {directory}."
        )
        try:
            path.write_text(json.dumps(dump(result)))
        except OSError as second:
            kept = f"The trial that could not be stored will be measured again ({second})."
        return f"{error}\n{kept}\n{self._how_to_go_on()}"

    def _how_to_go_on(self) -> str:
        done = len(self._done) + len(self._rows)
        return f"{done} of {self._turns.planned} rows are stored. Then: bench run --resume {self._run_id} (with the same --db)"

    def _finish(self, state: RunState, finished_at: str) -> None:
        # Where the database takes nothing more, the error on its way says so already; the run stays `running` and can be resumed.
        with contextlib.suppress(StoreError):
            self._store.finish_run(self._run_id, state, finished_at, self._turns.planned)

    @property
    def _pace(self) -> float:
        """How long trials last, as a share of what was guessed."""
        return self._spent_s / self._guessed_s if self._guessed_s > 0 else 1.0

    def _tell(self, text: str, result: Result | None = None) -> None:
        done = len(self._done) + len(self._rows)
        left_s = max(0.0, self._turns.left_s) * self._pace if done < self._turns.planned else 0.0
        self._progress(Progress(text, done, self._turns.planned, left_s, result))
