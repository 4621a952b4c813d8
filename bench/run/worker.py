"""One run's way to measure a trial: keeps a fork server at hand, and turns a trial into an answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.errors import DeviceError, HarnessError
from bench.machine import ConditionsSampler, Device
from bench.records import Json, Protocol, Reply, Request, Status, Trial, dump
from bench.run.classify import KilledEarly, classify
from bench.run.forkserver import ForkServer, ServerDied, server_environment
from bench.run.ranks import Answer
from bench.run.supervisor import End, Outcome, watch
from bench.run.traces import stored_log

_STARTS = 5
"""How often a server that is killed while it starts is started before we give up."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A trial that came to an answer."""

    answer: Answer
    outcome: Outcome | None
    """None where the server died twice, so that nobody saw the trial's end."""
    conditions: Mapping[str, Json]
    log: str
    duration_s: float


def import_environment(trial: Trial) -> dict[str, str]:
    """Variables that a trial needs before torch is imported. Trials that differ in them need different servers."""
    return {"TRITON_INTERPRET": "1"} if trial.case.device.endswith("-interpreter") else {}


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
    ) -> None:
        self._folder = folder
        self._device = device
        self._threads = threads
        self._plugins = plugins
        self._stop = stop
        self._notice = notice
        self._server: ForkServer | None = None
        self._server_changes: dict[str, str] = {}
        self._compiled: set[str] = set()
        self._verified: set[str] = set()
        self._count = 0

    @property
    def directory(self) -> Path:
        """Of the latest trial."""
        return self._folder / f"trial-{self._count:06d}"

    def variables(self, trial: Trial) -> dict[str, str]:
        """The environment variables that the trial's process gets."""
        return server_environment(self._threads, self._folder / "caches", import_environment(trial))

    def start(self, trial: Trial) -> ForkServer | None:
        """The server fit for this trial, started where there is none; None where we were asked to stop meanwhile.

        Raises DeviceError where torch does not see the GPU.
        """
        changes = import_environment(trial)
        if self._server is not None and changes == self._server_changes:
            return self._server
        self.close()
        server = self._started(trial)
        if server is None:
            return None
        self._server, self._server_changes = server, changes
        if self._device.kind == "cuda" and not server.facts["cuda_available"]:
            built = server.facts["torch_cuda"]
            why = f"it is built for CUDA {built}, which this driver may be too old for" if built else "it is a build without CUDA"
            raise DeviceError(
                f"NVML sees {self._device.name}, but torch {server.facts['torch']} does not: {why}. "
                "Install another torch, or say --device cpu to measure the CPU."
            )
        return server

    def _started(self, trial: Trial) -> ForkServer | None:
        for _chance in range(_STARTS):
            server = ForkServer(self._folder / "server.log", self.variables(trial))
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

    def measure(self, trial: Trial, protocol: Protocol, seed: int) -> Measured | None:
        """The trial's answer, or None where we were asked to stop. Raises HarnessError where our own code failed.

        A trial whose server dies, or that is killed before the subject took over, gets a second chance: it may not be the subject's
        doing. After that it is a row, or one such trial would stop every run.
        """
        trouble = ""
        for _chance in range(2):
            directory = self._prepare(trial, protocol, seed)
            sampler = ConditionsSampler(self._device)
            try:
                server = self.start(trial)
                if server is None:
                    return None
                with sampler:
                    outcome = watch(
                        server, directory, world_size=trial.case.world_size, timeout_s=protocol.timeout_s, stop=self._stop
                    )
                if outcome.end is End.INTERRUPT:
                    return None
                answer = classify(outcome, directory, world_size=trial.case.world_size, timeout_s=protocol.timeout_s)
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
            self._compiled.add(trial.case.key)
            if answer.reply.status is Status.OK:
                self._verified.add(trial.case.key)
            conditions = dict(sampler.summary())
            if outcome.ended_as.survivors:
                conditions["survivors"] = list(outcome.ended_as.survivors)
            return Measured(answer, outcome, conditions, stored_log(directory), outcome.ended - outcome.requested)
        reply = Reply(Status.CRASHED, f"{trouble}; so it was the second time")
        return Measured(Answer(reply, None, ()), None, {}, stored_log(directory), 0.0)

    def tidy(self) -> None:
        """Removes what the latest trial left on disk."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self) -> None:
        """Ends the server, and with it all that may still live below it."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _prepare(self, trial: Trial, protocol: Protocol, seed: int) -> Path:
        self._count += 1
        self.directory.mkdir()
        request = Request(
            case=trial.case,
            protocol=protocol,
            seed=seed,
            threads=self._threads,
            plugins=self._plugins,
            cold_caches=trial.case.key not in self._compiled,
            verify=trial.case.key not in self._verified,
            device_index=self._device.index,
        )
        (self.directory / "request.json").write_text(json.dumps(dump(request)))
        return self.directory
