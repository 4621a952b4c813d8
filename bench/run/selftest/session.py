"""Measures single trials for the self-test through the same worker that runs use, without a suite and without a database."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import bench
from bench.catalogue import load_catalogue
from bench.machine import Device
from bench.processes import adopting_orphans
from bench.records import Case, Json, Pass, Protocol, Scalar, Status, Trial
from bench.run.folders import RunFolder
from bench.run.interrupt import stop_requests
from bench.run.locks import device_lock
from bench.run.worker import Worker

SUBJECTS = Path(bench.__file__).parent / "worker" / "selftest_subjects.py"
"""The plug-in with the subjects that are known beforehand."""

SEED = 20_260_101

LATE_S = 3.0
"""How long after the deadline a trial may end that began before it."""


class NotMeasured(Exception):
    """A trial or a tool gave no number; the text says why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one trial gave."""

    values: Mapping[str, tuple[float, ...]]
    """Metric to samples, in the metric's unit."""
    conditions: Mapping[str, Json]

    def samples(self, metric: str) -> tuple[float, ...]:
        """Raises NotMeasured where the trial has none of that metric."""
        found = self.values.get(metric)
        if not found:
            raise NotMeasured(f"the trial has no {metric}")
        return found


class Session:
    """Trials on one device, one after the other, until the deadline."""

    def __init__(
        self,
        device: Device,
        folder: Path,
        *,
        deadline: float,
        stop: Callable[[], bool],
        notice: Callable[[str], None],
    ) -> None:
        """`deadline` is a moment of the monotonic clock."""
        self.device = device
        self.folder = folder
        self.notice = notice
        self.stop = stop
        self._deadline = deadline
        self._count = 0
        self._catalogue = load_catalogue([SUBJECTS])
        self.plugins = (str(SUBJECTS),)
        self._worker = Worker(folder, device, threads=1, plugins=self.plugins, stop=stop, notice=notice)

    @property
    def left_s(self) -> float:
        """Seconds to the deadline; negative after it."""
        return self._deadline - time.monotonic()

    def case(self, workload: str, subject: str, *, dtype: str = "fp32", timer: str | None = None, **params: Scalar) -> Case:
        """A forward of one subject in the regime that suites choose by default; parameters not given have their defaults."""
        found = self._catalogue.workload(workload)
        (slot,) = found.slots
        cuda = self.device.kind == "cuda"
        return Case(
            workload=workload,
            workload_version=found.version,
            subject={slot: subject},
            pass_=Pass.FORWARD,
            dtype=dtype,
            device=self.device.kind,
            cache="cold" if cuda else "warm",
            timer=timer or ("events" if cuda else "wall"),
            params={**{param.name: param.default for param in found.params}, **params},
        )

    def measure(self, case: Case, protocol: Protocol) -> Reading:
        """One trial. Raises NotMeasured for any status but ok and after the deadline, KeyboardInterrupt where we were asked to stop."""
        if self.left_s <= 0:
            raise NotMeasured("the time for the self-test was over")
        self._count += 1
        trial = Trial(case, index=self._count, block=0, position=self._count)
        # A trial that hangs must not make the whole self-test late.
        timeout_s = min(protocol.timeout_s, self.left_s + LATE_S)
        measured = self._worker.measure(trial, dataclasses.replace(protocol, timeout_s=timeout_s), SEED)
        self._worker.tidy()
        if measured is None:
            raise KeyboardInterrupt
        reply = measured.answer.reply
        self._worker.keep(trial, reply)
        if reply.status is not Status.OK:
            raise NotMeasured(f"{case.subject_label} is {reply.status}: {reply.reason}")
        values = {m.metric: m.samples for m in reply.measurements if m.scope == "trial"}
        return Reading(values, {**measured.conditions, **reply.conditions})

    def environment(self, case: Case) -> dict[str, str]:
        """The environment that a process for this case needs."""
        return self._worker.variables(Trial(case, index=0, block=0, position=0))

    def close(self) -> None:
        self._worker.close()


@contextlib.contextmanager
def open_session(device: Device, *, budget_s: float, wait: bool, notice: Callable[[str], None]) -> Iterator[Session]:
    """A session that holds the device's lock. The budget counts from when the lock is held.

    Raises LockError where it is held by others and `wait` is false, KeyboardInterrupt where a signal came while waiting.
    """
    with stop_requests() as stop, adopting_orphans():
        lock = device_lock(device.lock_name, run_id="selftest", command="bench selftest", wait=wait, waiting=notice, stop=stop)
        with lock as held:
            if not held:
                raise KeyboardInterrupt
            folder = RunFolder("selftest-")
            session = Session(device, folder.path, deadline=time.monotonic() + budget_s, stop=stop, notice=notice)
            try:
                yield session
            finally:
                session.close()
                folder.remove()
