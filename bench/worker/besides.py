"""What is asked of a subject beside its time: memory, what autograd saves, what it holds, causes, the measured check, and which kernel ran.

Each is a pass of its own, after the timing. What only we need is spared where memory does not suffice for it, and told as not done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.declare import Bound, Workload
from bench.records import Proof, Request
from bench.worker import check, proof, saved
from bench.worker.attribution_trace import explain_peak
from bench.worker.communication import communication
from bench.worker.device import DeviceSide
from bench.worker.findings import Findings
from bench.worker.phase_peaks import phase_peaks
from bench.worker.phases import PhaseLog
from bench.worker.refusals import DisagreesError, first_line, out_of_memory
from bench.worker.step import Step
from bench.worker.subject import Subject
from bench.worker.team import Team


def look_further(
    request: Request, phases: PhaseLog, findings: Findings, device: DeviceSide, subject: Subject, spec: Any, step: Step, team: Team
) -> None:
    """All passes, in the order of their phases."""

    def peak() -> None:
        measurements, facts = device.peak(step)
        findings.measurements.extend(measurements)
        findings.conditions.update(facts)

    def peaks_of_phases() -> None:
        findings.measurements.extend(phase_peaks(step))

    def communicate() -> None:
        measurements, facts = communication(step)
        findings.measurements.extend(measurements)
        findings.conditions.update(facts)

    def explain() -> None:
        measurements, facts = explain_peak(step)
        findings.measurements.extend(measurements)
        findings.conditions.update(facts)

    def compare() -> None:
        if step.bound.course is None:
            check.refill(subject.workload, spec, step, device.generator(request.seed + 2))
        errors: dict[str, float | None] = {}
        findings.demand(check.measured_checks(subject, spec, step, errors) if request.verify else check.finite_checks(step))
        for error in errors.values():
            if error is not None:
                findings.add("output_error", (error,))

    def tell() -> None:
        workload_findings(findings, subject.workload, spec, step.bound)

    def spared(phase: str, work: Callable[[], None]) -> None:
        phases.enter(phase)
        step.clear()
        spare(work, phase, findings, device, step, team)

    if request.case.device == "cuda":
        phases.enter("memory")
        peak()  # one more call as it was timed, with counters read: what does not fit then does not fit
    else:
        spared("memory", peak)
    if request.case.pass_.differentiates:
        spared("saved", lambda: findings.measurements.extend(saved.saved_bytes(step)))
    else:
        phases.enter("saved")
    spared("findings", tell)  # before the trace of the next pass, which takes gigabytes of the host
    if request.verify:
        spared("attribution", explain)
    step.clear()
    for phase, work in (("phase_peaks", peaks_of_phases), ("communication", communicate)):
        phases.enter(phase)
        spare(work, phase, findings, device, step, team)
    spared("measured_check", compare)
    if request.verify:
        findings.proof = Proof("unknown", (), "the pass under the profiler was not done")
        spared("proof", lambda: _prove(subject, spec, request.case.hardware, findings, step))


def workload_findings(findings: Findings, workload: Workload, spec: Any, bound: Bound) -> None:
    """What the workload says of what was built and has run: bytes held, on the host and on disk too, and how it computed."""
    for metric, value in workload.findings(spec, bound).items():
        findings.add(metric, (value,))
    findings.conditions.update(workload.facts(spec, bound))


def spare(work: Callable[[], None], phase: str, findings: Findings, device: DeviceSide, step: Step, team: Team) -> None:
    """Does what only we need. Where memory is not enough it is written down as not done; wrong numbers found before that still count.

    Where other ranks do not come out of the pass, which wait for this one, being out of memory ends the trial.
    """
    try:
        work()
    except Exception as error:
        if not out_of_memory(error):
            raise
        findings.conditions.setdefault("not_done", {})[phase] = f"out of memory: {first_line(error)}"
        if not team.all_leave(phase):
            raise
    else:
        team.leave(phase)
        return
    # Not within the except clause: the exception's frames hold on to tensors.
    check.require(findings.checks)
    step.clear()
    device.release()


def _prove(subject: Subject, spec: Any, device: str, findings: Findings, step: Step) -> None:
    seen = proof.observe(step, cuda=device == "cuda")
    if seen.kernels_per_call is not None:
        findings.add("kernels_per_call", (float(seen.kernels_per_call),))
    step.clear()
    states = subject.workload.proofs(spec, step.bound)
    watched = {slot: impl for slot, impl in subject.implementations.items() if slot in subject.workload.watched(spec)}
    findings.proof = proof.judge_all(watched, device, seen.ops, seen.kernels, states)
    if findings.proof.verdict == "disproved":
        raise DisagreesError(f"another kernel ran than declared: {findings.proof.detail}")
