"""One run's way to measure a trial: keeps a fork server at hand, and turns a trial into an answer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.errors import DeviceError, HarnessError
from bench.machine import ConditionsSampler, Device
from bench.machine.conditions import memory_available
from bench.machine.neighbours import host_pids
from bench.records import Case, Json, Protocol, Reply, Request, Status, Trial, dump, trial_folder
from bench.run.builds import Builds
from bench.run.classify import KilledEarly, classify
from bench.run.energy import with_energy
from bench.run.folders import FolderError
from bench.run.forkserver import ForkServer, ServerDied, cache_variables, server_environment
from bench.run.rank_devices import gpus_of_ranks
from bench.run.ranks import Answer
from bench.run.supervisor import End, Outcome, watch
from bench.run.traces import stored_log

_STARTS = 5
"""How often a server that is killed while it starts is started before we give up."""

MEMORY_SHARE = 0.9
"""Of the available memory that the ranks of one trial may take together where the protocol sets no limit."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A trial that came to an answer."""

    answer: Answer
    outcome: Outcome | None
    """None where the server died twice, so that nobody saw the trial's end."""
    conditions: Mapping[str, Json]
    log: str
    duration_s: float
    directory: Path | None = None
    """Where its files lie until `Worker.tidy`; None where there are none."""


def import_environment(trial: Trial) -> dict[str, str]:
    """Variables that a trial needs before torch is imported. Trials that differ in them need different servers."""
    return {"TRITON_INTERPRET": "1"} if trial.case.interpreted else {}


class Worker:
    """Measures trials one after the other. Everything on disk lies under `folder`; `close` leaves the folder to its owner."""

    def __init__(
        self,
        folder: Path,
        device: Device,
        *,
        threads: int,
        plugins: tuple[str, ...],
        stop: Callable[[], bool],
        notice: Callable[[str], None],
        weights: str | None = None,
    ) -> None:
        self._folder = folder
        self._device = device
        self._threads = threads
        self._plugins = plugins
        self._weights = weights
        self._stop = stop
        self._notice = notice
        self._builds = Builds(folder, plugins, stop=stop, notice=notice)
        self._server: ForkServer | None = None
        self._server_changes: dict[str, str] = {}
        self._compiled: set[str] = set()
        self._verified: set[str] = set()
        self._count = 0
        self._kept = False
        """Whether the answer of the latest trial becomes a row."""

    @property
    def directory(self) -> Path:
        """Of the latest trial."""
        return self._folder / f"trial-{self._count:06d}"

    def variables(self, trial: Trial) -> dict[str, str]:
        """The environment variables that the trial's process gets."""
        return {**self._server_variables(trial), **cache_variables(self._caches(trial))}

    def _server_variables(self, trial: Trial) -> dict[str, str]:
        return server_environment(self._threads, self._folder / "caches" / "run", import_environment(trial))

    def _caches(self, trial: Trial) -> Path:
        """A case's own: one that compiles what an earlier case compiled as well would look warm when it is not."""
        return self._folder / "caches" / _cache_name(trial.case)

    def start(self, trial: Trial) -> ForkServer | None:
        """The server fit for this trial, started where there is none; None where we were asked to stop meanwhile.

        Raises DeviceError where torch does not see the GPU.
        """
        if (standing := self._standing(trial)) is not None:
            return standing
        self.close()
        server = self._started(trial)
        if server is None:
            return None
        self._server, self._server_changes = server, import_environment(trial)
        if self._device.kind == "cuda" and not server.facts["cuda_available"]:
            built = server.facts["torch_cuda"]
            why = f"it is built for CUDA {built}, which this driver may be too old for" if built else "it is a build without CUDA"
            raise DeviceError(
                f"NVML sees {self._device.name}, but torch {server.facts['torch']} does not: {why}. "
                "Install another torch, or say --device cpu to measure the CPU."
            )
        return server

    def _standing(self, trial: Trial) -> ForkServer | None:
        """The server that there is, where it fits this trial."""
        return self._server if self._server_changes == import_environment(trial) else None

    def _started(self, trial: Trial) -> ForkServer | None:
        for _chance in range(_STARTS):
            server = self._new_server(trial)
            try:
                if server.start(self._stop):
                    return server
                server.close()
                return None
            except ServerDied as error:
                self._notice(f"{str(error).splitlines()[0]} while starting; starting another one")
            except BaseException:
                server.close()
                raise
        raise HarnessError(f"the fork server was killed {_STARTS} times while it started")

    def _new_server(self, trial: Trial) -> ForkServer:
        try:
            return ForkServer(self._folder / "server.log", self._server_variables(trial))
        except OSError as error:
            raise self._no_room(error) from error

    def measure(
        self, trial: Trial, protocol: Protocol, seed: int, once_begun: Callable[[], None] = lambda: None
    ) -> Measured | None:
        """The trial's answer, or None where we were asked to stop.

        `once_begun` is called while the trial is forked and imports, before it takes its device; earlier, and then again, where an
        operator is to be compiled or a server started first; not where it does not come so far. What it raises goes through, and the
        trial in progress ends with the server.

        Raises HarnessError where our own code failed, FolderError where the temporary folder takes no more.

        A trial whose server dies, or that is killed before the subject took over, gets a second chance: it may not be the subject's
        doing. After that it is a row, or one such trial would stop every run.
        """
        trouble = ""
        if self._builds.may_take_long(trial.case):
            once_begun()
        absent = self._builds.trouble(trial.case, self.variables(trial))
        if self._stop():
            return None
        if absent is not None:
            return Measured(Answer(Reply(Status.UNAVAILABLE, absent), None, ()), None, {}, "", 0.0)
        # A package may make a context when it is imported. In a container nobody can tell it by its pid from a stranger's, so there
        # the GPU is looked at before the trial is forked, and elsewhere while it imports.
        looks_first = self._device.kind == "cuda" and not host_pids()
        for _chance in range(2):
            if self._standing(trial) is None:
                once_begun()
            directory = self._prepare(trial, protocol, seed)
            sampler = ConditionsSampler(self._device, further=gpus_of_ranks(self._device, trial.case.world_size)[1:])
            try:
                server = self.start(trial)
                if server is None:
                    return None
                with contextlib.ExitStack() as sampling:
                    if looks_first:
                        sampling.enter_context(sampler)

                    def begin(sampling: contextlib.ExitStack = sampling, sampler: ConditionsSampler = sampler) -> None:
                        if not looks_first:
                            sampling.enter_context(sampler)
                        once_begun()

                    outcome = watch(
                        server,
                        directory,
                        world_size=trial.case.world_size,
                        timeout_s=protocol.timeout_s,
                        stop=self._stop,
                        variables=cache_variables(self._caches(trial)),
                        once_begun=begin,
                    )
                if outcome.end is End.INTERRUPT:
                    return None
                answer = classify(outcome, directory, world_size=trial.case.world_size, timeout_s=protocol.timeout_s)
                if trial.case.device == "cuda":
                    answer = with_energy(answer, sampler.energy_mj, ranks=trial.case.world_size)
            except ServerDied as error:
                self._server = None
                trouble = str(error).splitlines()[0]
                if self._stop():
                    return None
                self._notice(f"{trouble}; starting another one")
                continue
            except KilledEarly as error:
                if self._stop():
                    return None
                trouble = f"{error}, before the subject took over"
                self._notice(f"a trial was {trouble}; trying it again")
                continue
            conditions = dict(sampler.summary())
            if outcome.ended_as.survivors:
                conditions["survivors"] = list(outcome.ended_as.survivors)
            return Measured(answer, outcome, conditions, stored_log(directory), outcome.ended - outcome.requested, directory)
        reply = Reply(Status.CRASHED, f"{trouble}; so it was the second time")
        return Measured(Answer(reply, None, ()), None, {}, stored_log(directory), 0.0, directory)

    def keep(self, trial: Trial, reply: Reply) -> None:
        """Says that this answer becomes the trial's row. Only then is its case verified, and its cold compile time known.

        A trial that is thrown away (clocks held back) takes its checks and its compile time along: the next one gives them again. Its
        directory makes room for the next one's; that of one that is kept stays until `tidy`.
        """
        self._kept = True
        if reply.status is not Status.OK:
            return
        self._verified.add(trial.case.key)
        if any(measurement.metric == "compile_cold_s" for measurement in reply.measurements):
            self._compiled.add(trial.case.key)

    def leave(self, cases: Iterable[Case]) -> None:
        """Frees the disk of compile caches of cases that no further trial will need."""
        for case in cases:
            shutil.rmtree(self._folder / "caches" / _cache_name(case), ignore_errors=True)

    def tidy(self, directory: Path | None = None) -> None:
        """Removes what a trial left on disk: the latest, unless another's directory is given."""
        shutil.rmtree(directory or self.directory, ignore_errors=True)

    def close(self) -> None:
        """Ends the server, and with it all that may still live below it."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _no_room(self, error: OSError) -> FolderError:
        return FolderError(
            f"the run's folder {self._folder} takes no more: {error}; make room there, or set TMPDIR to another place"
        )

    def _prepare(self, trial: Trial, protocol: Protocol, seed: int) -> Path:
        """The directory of the trial, with its request. What an attempt before it left is removed."""
        try:
            if not self._kept:
                self.tidy()
            self._kept = False
            self._count += 1
            self.directory.mkdir()
            (self.directory / trial_folder.REQUEST).write_text(json.dumps(dump(self._request(trial, protocol, seed))))
        except OSError as error:
            raise self._no_room(error) from error
        return self.directory

    def _request(self, trial: Trial, protocol: Protocol, seed: int) -> Request:
        cold = trial.case.key not in self._compiled
        if cold:
            shutil.rmtree(self._caches(trial), ignore_errors=True)
        return Request(
            case=trial.case,
            protocol=_for_each_rank(protocol, trial.case.world_size),
            seed=seed,
            threads=self._threads,
            plugins=self._plugins,
            cold_caches=cold,
            verify=trial.case.key not in self._verified,
            device_index=self._device.index,
            device_uuid=self._device.uuid,
            weights=self._weights,
        )


def _cache_name(case: Case) -> str:
    return case.key[:16]


def _for_each_rank(protocol: Protocol, world_size: int) -> Protocol:
    """The protocol as one rank of several gets it: the limit on host memory is the trial's, and they share it."""
    if world_size == 1:
        return protocol
    limit = protocol.host_memory_limit_bytes
    if limit is None:
        available = memory_available()
        if available is None:
            return protocol
        limit = int(MEMORY_SHARE * available)
    return dataclasses.replace(protocol, host_memory_limit_bytes=max(1, limit // world_size))
