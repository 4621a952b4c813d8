"""One trial in this process: from `request.json` to `reply.json`, whatever the subject does short of dying.

The order of the passes is the method. Timing comes before everything that could disturb it (profilers, hooks, float64 references at
the measured shape); memory, proof and the second check have passes of their own. The first check comes before the timing, because
the time of wrong numbers is of no interest. Checks and proof are made until one trial of the case is kept as ok (`Request.verify`): what is
built the same way computes the same way, and the other trials still look for numbers that are not finite. Failures before the
hand-over are ours and raise; after it they are the subject's and become a status.

One failure after the timing is neither: running out of memory in a pass that only we need. The subject ran; what we wanted to know
besides did not fit. The times stay, and the conditions say what was not done (`not_done`: phase to reason). Of several ranks this holds
where all come out of the pass, each in its way: a rank that left while others wait for it in a collective ends the trial.

A probe (`Protocol.probe`) asks only whether a case fits, where a call may take minutes: see probe.py.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from bench.errors import PluginError, Unavailable
from bench.records import (
    MEMORY_LIMIT_PARAM,
    Case,
    Pass,
    Proof,
    Reply,
    Request,
    Scalar,
    Status,
    canonical_json,
    dump,
    load_json,
    trial_folder,
)
from bench.worker import check, timing
from bench.worker.besides import look_further, spare, workload_findings
from bench.worker.branch import IMPORTED, NOT_SHARED
from bench.worker.compiles import compile_state
from bench.worker.device import DeviceSide, WrongDeviceError, load_driver, open_device
from bench.worker.findings import Findings
from bench.worker.phase_times import phase_times
from bench.worker.phases import PhaseLog
from bench.worker.probe import NOT_LOOKED_AT, probe
from bench.worker.refusals import Failure, classify
from bench.worker.step import Step, Tensors, demand_tensors
from bench.worker.subject import load_subject
from bench.worker.team import Alone, Team
from bench.worker.threads import ProcessorTime, demand_threads


def run_trial(directory: Path, team: Team | None = None) -> None:
    """Runs the trial of `directory`. Raises only for faults of the harness, before the hand-over.

    With several ranks `team` says which one this is, and files carry the rank in their names.
    """
    team = team or Alone()
    rank = team.rank if team.size > 1 else None
    phases = PhaseLog(directory / trial_folder.phases(rank))
    phases.enter("started")
    request = load_json(Request, (directory / trial_folder.REQUEST).read_bytes())
    findings = Findings(runtime=_runtime())
    phases.enter("handover")
    reply = _answer(request, phases, findings, team, lambda: _await_turn(directory / trial_folder.GATE))
    _write(directory / trial_folder.reply(rank), reply)
    phases.enter("replied")
    phases.close()


def _await_turn(gate: Path) -> None:
    """Returns once the parent lets this trial take its device, or is gone; at once where it keeps no gate."""
    try:
        file = os.open(gate, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _answer(request: Request, phases: PhaseLog, findings: Findings, team: Team, await_turn: Callable[[], None]) -> Reply:
    outcome: dict[str, Any]
    try:
        with torch.set_grad_enabled(request.case.pass_.differentiates):
            _measure(request, phases, findings, team, await_turn)
        outcome = {"status": Status.OK, "measurements": tuple(findings.measurements)}
    except WrongDeviceError:
        raise  # ours: nothing that this run measures would be what it says
    except BaseException as error:  # noqa: BLE001 - the boundary: a subject may raise anything, SystemExit included
        # Many packages import their kernels at the first call only.
        building = phases.current in ("handover", "import", "device_init", "inputs", "build", "first_call")
        failure = classify(error, refuses=findings.refuses, building=building)
        outcome = {
            "status": failure.status,
            "reason": _under_limit(request.case, failure),
            "error_type": failure.error_type,
            "traceback": failure.traceback,
            "phase": phases.current,
        }
    return Reply(
        **outcome,
        checks=tuple(findings.checks),
        proof=findings.proof,
        cost=findings.cost,
        runtime=findings.runtime,
        conditions=findings.conditions,
        rank=team.rank,
    )


def _under_limit(case: Case, failure: Failure) -> str:
    """The reason; of an `oom` with the cap, since the allocator's own words tell of a device with much left."""
    limit = case.params.get(MEMORY_LIMIT_PARAM)
    if failure.status is not Status.OOM or not isinstance(limit, int):
        return failure.reason
    return f"under a memory_limit of {limit:,} bytes: {failure.reason}"


def _measure(request: Request, phases: PhaseLog, findings: Findings, team: Team, await_turn: Callable[[], None]) -> None:
    case, protocol = request.case, request.protocol
    imports = findings.imports
    device = open_device(request)

    phases.enter("import")
    with imports.running():
        try:
            subject = load_subject(request)
        except PluginError as error:
            raise Unavailable(str(error)) from error
    findings.refuses = subject.refuses
    workload = subject.workload
    spec = workload.spec(case)
    findings.cost = workload.cost(spec, case.pass_)
    load_driver(case)
    phases.enter("gate")
    await_turn()

    phases.enter("device_init")
    device.initialise()
    findings.runtime.update(device.runtime())
    limit = case.params.get(MEMORY_LIMIT_PARAM)
    with device.limited_memory(protocol, limit if isinstance(limit, int) else None) as bind_limit, ExitStack() as closing:
        phases.enter("inputs")
        torch.manual_seed(request.seed + team.rank)
        generator = device.generator(request.seed + team.rank)
        inputs = workload.make_inputs(spec, device.torch_device, generator)
        parameters = workload.make_parameters(spec, device.torch_device, generator)
        check.track_gradients(workload, spec, inputs, case.pass_)

        phases.enter("build")
        start, imported = time.perf_counter(), imports.seconds
        with imports.running():
            bound = subject.build(spec, parameters)
        findings.add("build_s", (time.perf_counter() - start - (imports.seconds - imported),))
        # What a branch has imported costs its trials nothing; the note says what it cost the branch.
        found = f"without what was imported before the fork: {', '.join(dict.fromkeys(IMPORTED))}" if IMPORTED else None
        findings.add("import_s", (imports.seconds,), note=found)
        if NOT_SHARED:
            findings.conditions["imports_not_shared"] = NOT_SHARED[0]
        del parameters
        if bound.close is not None:
            closing.callback(bound.close)
        # Only here: what was converted stood whole on the device first, which loaders of real weights avoid by reading them in parts.
        bind_limit()

        phases.enter("first_call")
        step, first_s = _first_call(bound, inputs, case.pass_, device, generator)
        if not protocol.probe:
            warm_s = _seconds_of_one_call(step, device)
            if device.times:
                findings.add("compile_cold_s" if request.cold_caches else "compile_warm_s", (max(0.0, first_s - warm_s),))
        step.clear()

        if request.verify:
            phases.enter("check")
            host_generator = torch.Generator().manual_seed(request.seed + 1)
            findings.demand(check.small_checks(subject, spec, device.torch_device, host_generator))

        if protocol.probe:
            phases.enter("memory")
            fits = probe(step, device, team)
            demand_threads(request)
            findings.measurements.extend(fits.measurements)
            findings.conditions.update(fits.facts)
            findings.proof = Proof("unknown", (), NOT_LOOKED_AT) if request.verify else None
            findings.demand(fits.checks)
            step.clear()
            phases.enter("findings")
            spare(lambda: workload_findings(findings, workload, spec, bound), "findings", findings, device, step, team)
            return

        if device.times:
            alone = team.size == 1 and not workload.composed
            _time(request, phases, findings, device, step, team, alone=alone)

        look_further(request, phases, findings, device, subject, spec, step, team)


def _first_call(bound: Any, inputs: Tensors, pass_: Pass, device: DeviceSide, generator: torch.Generator) -> tuple[Step, float]:
    """The step, and the seconds that its first forward and backward took; drawing the outer gradients is not counted."""
    if bound.prepare is not None:
        bound.prepare(1)
    device.synchronize()
    start = time.perf_counter()
    outputs = bound.forward(inputs)
    device.synchronize()
    seconds = time.perf_counter() - start
    if bound.observe is None:
        demand_tensors(outputs)
    step = Step(bound, inputs, check.starting_gradients(outputs, generator) if pass_.differentiates else {}, pass_)
    if pass_.differentiates:
        device.synchronize()
        start = time.perf_counter()
        step.backward(outputs, step.cotangents)
        device.synchronize()
        seconds += time.perf_counter() - start
    return step, seconds


def _seconds_of_one_call(step: Step, device: DeviceSide) -> float:
    """Forward and backward of one warm call, the untimed part included, as the first call has it."""
    start = time.perf_counter()
    step.prepare()
    kept = step()
    device.synchronize()
    seconds = time.perf_counter() - start
    del kept
    return seconds


def _time(
    request: Request, phases: PhaseLog, findings: Findings, device: DeviceSide, step: Step, team: Team, *, alone: bool
) -> None:
    """`alone`: whether nothing but the subject's own call may keep a processor busy meanwhile, no exchange between ranks, no files."""
    phases.enter("timer")
    timer = device.timer(request.case)
    phases.enter("warmup")
    calls = timing.calls_per_sample(timer, step, team)
    warmup = timing.warm_up(timer, step, calls, request.protocol, team)
    # What collecting takes, a tenth of a second where much is imported, is not sampling: the energy of that is told by call.
    with timing.without_collection():
        phases.enter("sampling")
        before, retries, began = compile_state(), device.allocator_retries(), ProcessorTime.now()
        samples = timing.take_samples(timer, step, calls, request.protocol, team)
        spent = ProcessorTime.now().since(began)
    demand_threads(request, spent if alone else None)
    if compiled := compile_state().since(before):
        raise RuntimeError(f"the samples are no times of a call: {compiled} while they were taken")
    if retries is not None:
        findings.conditions["allocator_retries_while_sampling"] = (device.allocator_retries() or 0) - retries
    phases.enter("phases")
    findings.measurements.extend(phase_times(step, device.marks, team, most=request.protocol.max_samples))
    findings.add("time_s", samples.seconds, calls_per_sample=calls, note=samples.note())
    findings.measurements.extend(timer.measurements())
    findings.conditions.update(
        timer.conditions(), warmup_calls=warmup.calls, warmup_stable=warmup.stable, sampling_stopped_by=samples.stopped_by
    )


def _runtime() -> dict[str, Scalar]:
    return {
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "torch_cuda": torch.version.cuda,
    }


def _write(path: Path, reply: Reply) -> None:
    """Whole or not at all: a reader never sees half a reply."""
    temporary = path.with_name(path.name + ".partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(canonical_json(dump(reply)))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
