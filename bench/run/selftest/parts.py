"""The parts that every device has: spins, memory, an injected slow-down, and the spread between processes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

from bench.machine.conditions import STOLEN_SHARE
from bench.machine.throttling import FORBIDDING
from bench.records import Case, Protocol
from bench.run.selftest.judgement import Judgement, Verdict, cannot_tell, exact, excused, slow_down, spin, spread
from bench.run.selftest.session import NotMeasured, Reading, Session
from bench.stats import mean, median

FIRST_BYTES, SECOND_BYTES, THIRD_BYTES = 3_000_001, 5_000_003, 1_000_003
"""Odd, so that rounding shows. The peak is the first two together; a sum of all three would be a sum and no peak."""

SLOW_DOWNS = (0.02, 0.05, 0.10)
FEWEST_PROCESSES = 3

SWITCHED_SHARE = 0.1
OWN_CORES = 1.2
"""What a trial of one thread and its parent use."""
OTHER_CORES = 0.2


def disturbance(readings: Sequence[Reading]) -> str | None:
    """What else went on and would explain a miss, in words; None: nothing that could be seen."""
    if any("gpu_uuid" in reading.conditions for reading in readings):
        return _gpu_disturbance(readings)
    busy = {entry["name"]: entry["cores"] for reading in readings for entry in reading.conditions.get("busy_processes") or ()}
    if busy:
        return f"the CPU was shared with {', '.join(f'{name} ({cores:g} cores)' for name, cores in list(busy.items())[:3])}"
    switches = sum(int(reading.conditions.get("involuntary_switches") or 0) for reading in readings)
    samples = sum(len(reading.values.get("time_s", ())) for reading in readings)
    if samples and switches / samples > SWITCHED_SHARE:
        return f"another process took the core {switches} times during {samples} samples"
    stolen = _average(readings, "cpu_stolen_share")
    if stolen > STOLEN_SHARE:
        return f"the hypervisor took {stolen:.0%} of the CPU"
    # Processes that came and went are in no list, but the whole machine's counters have them.
    others = _average(readings, "machine_busy_share") * (os.cpu_count() or 1) - OWN_CORES
    return f"something else kept {others:.1f} cores busy" if others > OTHER_CORES else None


def _average(readings: Sequence[Reading], name: str) -> float:
    """Over the trials: one short trial has only some dozens of the kernel's ticks."""
    found = [float(reading.conditions[name]) for reading in readings if name in reading.conditions]
    return mean(found) if found else 0.0


def _gpu_disturbance(readings: Sequence[Reading]) -> str | None:
    for reading in readings:
        others = ", ".join(str(name) for name in reading.conditions.get("other_compute_processes") or ())
        if others:
            return f"others computed on the GPU: {others}"
        shares = reading.conditions.get("throttle_share") or {}
        held = [reason for reason in FORBIDDING if shares.get(reason)]
        if held:
            return f"the GPU held its clocks back: {', '.join(held)}"
    return None


def settled(line: Judgement, readings: Sequence[Reading]) -> Judgement:
    """The line with what was seen beside it: a disturbance excuses a miss, launch gaps in the samples only explain it."""
    early = sum(int(reading.conditions.get("samples_started_early") or 0) for reading in readings)
    if line.verdict is Verdict.MISS and early:
        line = dataclasses.replace(line, reason=f"{early} samples began before the call was enqueued, so launch gaps are in them")
    clocks = [median(reading.values["sm_clock_hz"]) for reading in readings if reading.values.get("sm_clock_hz")]
    if clocks:
        seen = {"lowest_sm_clock_hz": min(clocks), "highest_sm_clock_hz": max(clocks)}
        line = dataclasses.replace(line, beside={**line.beside, **seen})
    return excused(line, disturbance(readings))


def length(seconds: float) -> str:
    """`50 µs`, `1 ms`: for names of lines."""
    return f"{seconds * 1e3:g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:g} µs"


def spins(session: Session, lengths_s: Sequence[float], protocol: Protocol, *, trials: int = 1) -> Iterator[Judgement]:
    """Busy waits of known length: the median over the trials' medians, as for every case."""
    for length_s in lengths_s:
        what = f"busy wait of {length(length_s)}"
        try:
            case = session.case("selftest", "spin", seconds=length_s)
            readings = [session.measure(case, protocol) for _ in range(trials)]
            yield settled(spin("spins", what, length_s, [reading.samples("time_s") for reading in readings]), readings)
        except NotMeasured as error:
            yield cannot_tell("spins", what, str(error))


def memory(session: Session, protocol: Protocol) -> Iterator[Judgement]:
    """The peak of allocations whose sizes are known, to the byte."""
    case = session.case("selftest", "allocate", first_bytes=FIRST_BYTES, second_bytes=SECOND_BYTES, third_bytes=THIRD_BYTES)
    reading = session.measure(case, protocol)
    peak = FIRST_BYTES + SECOND_BYTES
    if session.device.kind != "cuda":
        yield exact("memory", "peak of two allocations", peak, reading.samples("peak_bytes")[0])
        return
    rounded = sum(-(-size // 512) * 512 for size in (FIRST_BYTES, SECOND_BYTES))
    for what, metric, expected in (
        ("peak of two allocations, as asked for", "peak_requested_bytes", peak),
        ("the same in the allocator's blocks of 512 bytes", "peak_bytes", rounded),
    ):
        try:
            yield exact("memory", what, expected, reading.samples(metric)[0])
        except NotMeasured as error:
            yield cannot_tell("memory", what, str(error))


def slow_downs(
    session: Session, base: Case, injected: Mapping[float, tuple[Case, float]], protocol: Protocol, *, rounds: int
) -> Iterator[Judgement]:
    """Trials of `base` and of slowed cases interleaved, A B C D, D C B A, ...

    Args:
        injected: share to the slowed case, and the ratio that it really has.
    """
    arms: dict[float, Case] = {0.0: base, **{share: case for share, (case, _) in injected.items()}}
    readings: dict[float, list[Reading]] = {share: [] for share in arms}
    for number in range(rounds):
        for share in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            readings[share].append(session.measure(arms[share], protocol))
    medians = {share: [median(reading.samples("time_s")) for reading in found] for share, found in readings.items()}
    for share, (_, ratio) in injected.items():
        line = slow_down("slow-down", share, ratio, medians[0.0], medians[share])
        yield settled(line, [*readings[0.0], *readings[share]])


@dataclasses.dataclass(frozen=True, slots=True)
class SpreadOf:
    """A case whose trials should agree: metric to the largest spread between processes that is allowed."""

    label: str
    case: Case
    limits: Mapping[str, float]


def spreads(session: Session, subjects: Sequence[SpreadOf], protocol: Protocol, *, most: int) -> Iterator[Judgement]:
    """Trials of all subjects interleaved: at least three each, then up to `most` while there is time for another round."""
    readings: dict[str, list[Reading]] = {subject.label: [] for subject in subjects}
    faults: dict[str, str] = {}
    spent_s = 0.0
    for number in range(most):
        began_s = session.left_s
        if number >= FEWEST_PROCESSES and began_s < spent_s:
            break
        for subject in subjects if number % 2 == 0 else subjects[::-1]:
            if subject.label in faults:
                continue
            try:
                readings[subject.label].append(session.measure(subject.case, protocol))
            except NotMeasured as error:
                faults[subject.label] = str(error)
        spent_s = began_s - session.left_s
    for subject in subjects:
        found = readings[subject.label]
        for metric, limit in subject.limits.items():
            what = f"{subject.label}, in {'cycles' if metric == 'cycles' else 'ms'}"
            try:
                if len(found) < FEWEST_PROCESSES:
                    raise NotMeasured(faults.get(subject.label, "too few trials"))
                line = spread("spread between processes", what, [reading.samples(metric) for reading in found], limit)
            except NotMeasured as error:
                yield cannot_tell("spread between processes", what, str(error))
                continue
            yield settled(line, found)
