"""Several GPUs of one node measure one run at the same time: a process a GPU, each with its own part of the plan, watched together.

A part is whole blocks, so what is compared with each other ran on one GPU, and the same points make the same part every night. Each
process takes its GPU's lock, keeps its own fork server and writes its own rows: what ends one of them touches no other. This process
holds the run, tells what all of them say, passes a signal on, and says in the end how far the run came.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from bench.errors import DeviceError, StoreError
from bench.machine import Device, find_device, python, python_environment
from bench.machine.nvml import visible_gpus
from bench.records import Result, RunState, Status, utc_now
from bench.run.canaries import canary_cases, is_canary
from bench.run.commands import run_command
from bench.run.execute import new_run
from bench.run.interrupt import stop_requests
from bench.run.locks import run_lock
from bench.run.options import RunOptions
from bench.run.part import DATABASE_VARIABLE, ENDED, SAID
from bench.run.plan import Plan
from bench.run.progress import Progress, RunSummary, silent
from bench.run.resume import TakenUp, demand_unchanged, take_up

if TYPE_CHECKING:
    from bench.store import Store
    from bench.suite import Suite

PART = ("-m", "bench.run.part")
_LOOK_EVERY_S = 0.1
_PATIENCE_S = 20.0
"""For parts to end after a second signal; each has a trial to stop and a server to close."""
_TAIL_BYTES = 4096


def find_gpus(choice: str) -> tuple[Device, ...]:
    """The GPUs for `all`, or for numbers such as `0,2`, each once. Raises DeviceError."""
    if choice == "all":
        find_device("cuda")  # says why where there is none
        return tuple(find_device(f"cuda:{index}") for index in range(len(visible_gpus())))
    if not re.fullmatch(r"\d+(,\d+)*", choice):
        raise DeviceError(f"--gpus takes `all`, or numbers with commas between, such as 0,1; not {choice!r}")
    return tuple(find_device(f"cuda:{index}") for index in dict.fromkeys(map(int, choice.split(","))))


@dataclass(slots=True)
class _Part:
    """One process and what it has said so far."""

    device: Device
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    """What it wrote to stderr: the traceback of a bug."""
    planned: int
    done: int = 0
    left_s: float = 0.0
    unread: bytes = b""
    end: Mapping[str, Any] | None = None
    failure: str | None = None
    """What it said where it failed."""
    lost: str | None = None

    @property
    def name(self) -> str:
        return self.device.torch_name

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def finish(self) -> None:
        """Collects the process, which has closed its output, and says why it is lost where it told no summary."""
        code = self.process.wait()
        self.left_s = 0.0
        if self.end is None:
            self.errors.seek(0)
            said = self.errors.read()[-_TAIL_BYTES:].decode(errors="replace").strip()
            ended = f"its process ended with {'signal' if code < 0 else 'status'} {abs(code)}"
            self.lost = self.failure or f"{ended}{f': {said}' if said else ''}"


@dataclass(slots=True)
class _Watch:
    """The parts of a run while they measure."""

    store: Store
    progress: Callable[[Progress], None]
    parts: list[_Part] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def remark(self, text: str, result: Result | None = None) -> None:
        done, planned = sum(part.done for part in self.parts), sum(part.planned for part in self.parts)
        self.progress(Progress(text, done, planned, max((part.left_s for part in self.parts), default=0.0), result))

    def read(self, part: _Part) -> bool:
        """What a part has to say now; False at the end of it."""
        data = os.read(part.output.fileno(), 65536)
        part.unread += data
        *lines, part.unread = part.unread.split(b"\n")
        for line in lines:
            self._line(part, line)
        return bool(data)

    def _line(self, part: _Part, line: bytes) -> None:
        facts: Mapping[str, Any] = json.loads(line)
        if facts["kind"] == SAID:
            part.done, part.planned, part.left_s = facts["done"], facts["planned"], facts["left_s"]
            result = self.store.find_result(facts["row"]) if facts["row"] else None
            self.results += [result] if result else []
            self.remark(f"{part.name}: {facts['text']}", result)
        elif facts["kind"] == ENDED:
            part.end, part.planned = facts, facts["planned"]
        else:
            part.failure = facts["text"]

    def until_ended(self, stop: Callable[[], bool]) -> None:
        """Reads until every process is gone; passes the first signal on."""
        asked = False
        with selectors.DefaultSelector() as selector:
            for part in self.parts:
                selector.register(part.output, selectors.EVENT_READ, part)
            while selector.get_map():
                for key, _ in selector.select(_LOOK_EVERY_S):
                    part = key.data
                    if not self.read(part):
                        selector.unregister(part.output)
                        part.finish()
                        if part.lost is not None:
                            self.remark(f"{part.name} is lost to this run: {part.lost}")
                if stop() and not asked:
                    asked = True
                    self.signal()

    def signal(self) -> None:
        for part in self.parts:
            if part.process.poll() is None:
                part.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends what still lives, as after a second signal."""
        self.signal()
        deadline = time.monotonic() + _PATIENCE_S
        for part in self.parts:
            with contextlib.suppress(subprocess.TimeoutExpired):
                part.process.wait(max(0.0, deadline - time.monotonic()))
            if part.process.poll() is None:
                part.process.kill()
                part.process.wait()
            part.output.close()
            part.errors.close()


def execute_on_gpus(
    plan: Plan,
    suite: Suite,
    gpus: Sequence[Device],
    store: Store,
    options: RunOptions,
    *,
    progress: Callable[[Progress], None] = silent,
) -> RunSummary:
    """Measures `plan` in a new run on several GPUs at once.

    A GPU whose process ends without a summary is told as `lost`, and the run is `broken` then; all rows are stored. Raises LockError, and
    StoreError where the run cannot be stored; DeviceError where trials have several ranks.
    """
    from bench.store import new_id

    run = new_run(new_id(), plan, suite, gpus[0], options, run_command(options))
    taken = take_up(run, device=gpus[0].torch_name, budget_s=options.budget_s, wait_for_lock=options.wait_for_lock)
    return _measure(taken, gpus, store, progress, begins=True)


def resume_on_gpus(
    text: str,
    gpus: Sequence[Device],
    store: Store,
    *,
    budget_s: float | None = None,
    wait_for_lock: bool = True,
    progress: Callable[[Progress], None] = silent,
) -> RunSummary:
    """Measures what the run `text` still lacks on several GPUs at once, however many began it. Raises what `resume` raises."""
    taken = take_up(store.find_run(text), device=gpus[0].torch_name, budget_s=budget_s, wait_for_lock=wait_for_lock)
    demand_unchanged(taken.run, taken.suite, taken.options)
    return _measure(taken, gpus, store, progress, begins=False)


def _measure(
    taken: TakenUp,
    gpus: Sequence[Device],
    store: Store,
    progress: Callable[[Progress], None],
    *,
    begins: bool,
) -> RunSummary:
    run, options = taken.run, taken.options
    if any(case.world_size > 1 for case in taken.expansion.cases):
        raise DeviceError(
            f"suite {run.suite} has trials of several ranks, which take the GPUs from the first on for themselves: "
            "measure it with --device cuda:0 instead of --gpus, or leave those out with --filter world_size=1"
        )
    began = time.monotonic()
    with stop_requests() as stop:

        def remark(text: str) -> None:
            progress(Progress(text, 0, run.planned_trials, 0.0))

        def late() -> bool:
            return options.over_budget(time.monotonic() - began)

        lock = run_lock(run.id, command=run_command(options), wait=options.wait_for_lock, waiting=remark, stop=stop, late=late)
        with lock as ours:
            if not ours:
                return RunSummary(run.id, RunState.INTERRUPTED, run.planned_trials, {})
            if begins:
                store.add_run(run)
            else:
                store.finish_run(run.id, RunState.RUNNING, None)
            before = store.done(run.id)
            watch = _Watch(store, progress)
            state = RunState.BROKEN
            try:
                _start(watch, taken, gpus)
                watch.until_ended(stop)
                state = _state(watch.parts, interrupted=stop())
            except KeyboardInterrupt:
                state = RunState.INTERRUPTED
                raise
            finally:
                watch.close()
                planned = sum(part.planned for part in watch.parts) or run.planned_trials
                # Where the database takes nothing more, the error on its way says so already.
                with contextlib.suppress(StoreError):
                    store.finish_run(run.id, state, utc_now(), planned)
    canaries = {case.key for case in canary_cases(taken.expansion.cases)}
    return RunSummary(
        run.id,
        state,
        planned,
        Counter(row.status for row in watch.results),
        before=len(before),
        ok=sum(row.status is Status.OK and row.case.key not in canaries for row in watch.results),
        ok_before=sum(row.status is Status.OK and key[0] not in canaries for key, row in before.items()),
        duration_s=time.monotonic() - began,
        results=tuple(watch.results),
        lost={part.name: part.lost for part in watch.parts if part.lost is not None},
    )


def _start(watch: _Watch, taken: TakenUp, gpus: Sequence[Device]) -> None:
    """Starts as many parts as there are blocks for."""
    options = taken.options
    points = {trial.block for trial in taken.plan(None).trials if not is_canary(trial.case, taken.suite.workload)}
    busy, idle = gpus[: len(points)], gpus[len(points) :]
    variables = {**python_environment(), DATABASE_VARIABLE: watch.store.location.spelled}
    further = ["--parent", str(os.getpid())]
    further += [] if options.budget_s is None else ["--budget-s", str(options.budget_s)]
    further += [] if options.wait_for_lock else ["--no-wait"]
    for number, device in enumerate(busy, 1):
        plan = replace(taken, device=device).plan(None, (number, len(busy)))
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the part
        process = subprocess.Popen(
            python(*PART, taken.run.id, f"{number}/{len(busy)}", device.torch_name, *further),
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C in the terminal is for us, and we pass it on once
        )
        watch.parts.append(_Part(device, process, errors, len(plan.trials), left_s=plan.estimated_s))
    for device in idle:
        watch.remark(f"{device.torch_name} has nothing to measure: there are only {len(points)} blocks")


def _state(parts: Sequence[_Part], *, interrupted: bool) -> RunState:
    """Of a run whose parts have all ended."""
    ends = {RunState(part.end["state"]) if part.end is not None else RunState.BROKEN for part in parts}
    if interrupted or RunState.INTERRUPTED in ends:
        return RunState.INTERRUPTED
    gravest = (RunState.BROKEN, RunState.BUDGET)
    return next((state for state in gravest if state in ends), RunState.FINISHED)
