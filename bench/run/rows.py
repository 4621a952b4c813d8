"""Makes a row of a trial's answer: with its environment, what it cost, and the command that measures it again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.machine import Device, environment, harness_version
from bench.records import Environment, Json, Result, Scalar, Status, Trial
from bench.run.canaries import is_canary
from bench.run.commands import case_command, run_command
from bench.run.options import RunOptions
from bench.run.traces import cost_measurements
from bench.run.worker import Measured

if TYPE_CHECKING:
    from bench.suite import Suite

LONGEST_REASON = 4_000


class RowMaker:
    """Makes the rows of one run. Remembers what the worker said of the machine, for rows that have no answer of it."""

    def __init__(self, run_id: str, suite: Suite, device: Device, options: RunOptions, *, trials: int, seed: int) -> None:
        self._run_id = run_id
        self._suite = suite
        self._device = device
        self._options = options
        self._trials = trials
        self._seed = seed
        self._commands: dict[tuple[str, bool], str] = {}
        self._environments: dict[str, Environment] = {}
        self._runtimes: dict[str, Mapping[str, Scalar]] = {}
        self._latest_runtime: Mapping[str, Scalar] = {}

    def row(
        self,
        trial: Trial,
        measured: Measured,
        *,
        seed: int,
        started_at: str,
        variables: Mapping[str, str],
        foretold: Mapping[str, Json],
    ) -> Result:
        """The row. `variables` is the environment that the trial's process had, or would have had; `foretold` joins the conditions."""
        from bench.store import new_id

        reply = measured.answer.reply
        measurements = reply.measurements
        if reply.status is Status.INCORRECT:
            measurements = ()  # wrong numbers have no time; the worker gives none, and this is the last door
        if measured.outcome is not None:
            measurements += cost_measurements(
                measured.answer.phases, requested=measured.outcome.requested, ended=measured.outcome.ended, already=measurements
            )
        log = measured.log
        if reply.traceback and reply.traceback not in log:
            log = f"{log.rstrip()}\n{reply.traceback}".lstrip()
        return Result(
            id=new_id(),
            run_id=self._run_id,
            trial=trial,
            status=reply.status,
            reason=None if reply.reason is None else _cut(reply.reason),
            environment=self._environment(trial, reply.runtime, variables),
            started_at=started_at,
            duration_s=measured.duration_s,
            seed=seed,
            command=self._command(trial, reply.status),
            error_type=reply.error_type,
            phase=reply.phase,
            rank=measured.answer.rank,
            measurements=measurements,
            checks=reply.checks,
            proof=reply.proof,
            cost=reply.cost,
            conditions={**measured.conditions, **reply.conditions, **foretold},
            log=log,
            harness_version=harness_version(),
        )

    def _environment(self, trial: Trial, runtime: Mapping[str, Scalar], variables: Mapping[str, str]) -> Environment:
        """A row without the worker's answer gets what the worker said of the same subject, or of any: it is the same machine."""
        subject = trial.case.subject_label
        if runtime:
            self._runtimes[subject] = self._latest_runtime = runtime
        runtime = runtime or self._runtimes.get(subject, self._latest_runtime)
        memo = json.dumps([dict(runtime), trial.case.world_size, trial.case.device], sort_keys=True)
        if memo not in self._environments:
            self._environments[memo] = environment(
                self._device,
                threads=self._suite.threads,
                runtime=runtime,
                world_size=trial.case.world_size,
                under_test=self._suite.under_test,
                variables=variables,
            )
        return self._environments[memo]

    def _command(self, trial: Trial, status: Status) -> str:
        """Wrong numbers must come out again, so their command names the run's seed: it gives the same inputs. To measure a time
        again, other inputs are as good, and better evidence.
        """
        same_inputs = status is Status.INCORRECT
        key = trial.case.key, same_inputs
        if key not in self._commands:
            # A canary comes with every run of its suite on such a device, and with no filter.
            seed = self._seed if same_inputs else None
            self._commands[key] = (
                run_command(self._options if seed is None else dataclasses.replace(self._options, seed=seed))
                if is_canary(trial.case, self._suite.workload)
                else case_command(trial.case, self._suite, self._options, trials=self._trials, seed=seed)
            )
        return self._commands[key]


SHOWN_PARAMS = ("model", "seq_len", "batch")


def describe(result: Result, axes: Sequence[str] = (), subject: str | None = None) -> str:
    """A row in one line: what, and how it came out. `axes` are those of the suite that have several values, `subject` its label there."""
    from bench.suite.axes import spelled_axis

    case = result.case
    words = [case.workload, subject or case.subject_label, str(case.pass_), case.dtype]
    params = [spelled_axis(name, value) for name, value in case.params.items()]
    words += [f"{name}={value}" for name, value in params if name in SHOWN_PARAMS or name in axes]
    answer = str(result.status) if result.reason is None else f"{result.status}: {result.reason.splitlines()[0]}"
    return f"{' '.join(words)} #{result.trial.index}: {answer}"


def _cut(reason: str) -> str:
    return (
        reason
        if len(reason) <= LONGEST_REASON
        else f"{reason[:LONGEST_REASON]} [... {len(reason) - LONGEST_REASON} characters more]"
    )
