"""Times one call by several timers in turn, ours and others', in one process. Started as `python -m bench.worker.diagnose`.

The parent starts it early and speaks when it is ready: this process imports torch, then waits for one JSON line on stdin,

    {"directory": PATH, "rounds": N, "requests": {NAME: records.Request, ...}}

and answers with one file `NAME.json` per request (whole or not at all), each as soon as it is known:

    {"seconds": {TIMER: [median of each round]}, "clocks_hz": {TIMER: [SM clock of each round, or null]},
     "failed": {TIMER: REASON}, "fault": REASON or null}

Why one process, and rounds: two processes on one GPU differ by a per cent in milliseconds, because clocks and power do. To compare
timers and not moments, each round asks every timer once, and every second round in the opposite order.

Why clocks. A timer that keeps the GPU busier draws more power, and under its cap the GPU then runs slower: such timers differ in
milliseconds, rightly, and agree in cycles. So on CUDA each round is told with the SM clock that was read on the device around it.

On CUDA: `events` (what trials use), `cuda_graph` (graph replay), `profiler` (the union of the kernels' intervals), `do_bench`
(Triton's), and `events_at_their_flush`: ours behind a flush of do_bench's own buffer, so that the two differ in nothing else.
On a CPU: `wall` (what trials use), and `torch_timer` (torch.utils.benchmark).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from bench.records import Json, Protocol, Request, load
from bench.stats import median
from bench.worker import timing
from bench.worker.check import track_gradients
from bench.worker.device import DeviceSide, open_device
from bench.worker.step import Step
from bench.worker.subject import load_subject
from bench.worker.team import Alone

if TYPE_CHECKING:
    from bench.worker.cuda_clock import DeviceClock

PROFILED_CALLS = 10
GRAPH_SAMPLES = 8
SHORT_WARMUP_S = 0.1
LONGEST_REASON = 2000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """One round of one timer: median seconds of a call, and the SM clock meanwhile (None on a CPU, and where it could not be read)."""

    seconds: float
    clock_hz: float | None = None


Round = Callable[[], Reading]

Maker = Callable[[], Round]
"""Prepares a timer; may raise where it does not work here."""


def built_step(request: Request, device: DeviceSide) -> Step:
    """The step of a request's case, forward only, as a trial builds it."""
    subject = load_subject(request)
    spec = subject.workload.spec(request.case)
    device.initialise()
    torch.manual_seed(request.seed)
    generator = device.generator(request.seed)
    inputs = subject.workload.make_inputs(spec, device.torch_device, generator)
    parameters = subject.workload.make_parameters(spec, device.torch_device, generator)
    track_gradients(subject.workload, spec, inputs, request.case.pass_)
    step = Step(subject.build(spec, parameters), inputs, {}, request.case.pass_)
    step()
    device.synchronize()
    return step


def ours(timer: timing.SampleTimer, step: Step, protocol: Protocol) -> Round:
    """Our timer with our warm-up and our stopping rule, as in a trial; later rounds warm up briefly, for clocks fall in the pauses."""
    team = Alone()
    calls = timing.calls_per_sample(timer, step, team)
    timing.warm_up(timer, step, calls, protocol, team)
    again = dataclasses.replace(protocol, max_warmup_s=SHORT_WARMUP_S)

    def once() -> Reading:
        timing.warm_up(timer, step, calls, again, team)
        with timing.without_collection():
            seconds = median(timing.take_samples(timer, step, calls, protocol, team).seconds)
        clocks = next((found.samples for found in timer.measurements() if found.metric == "sm_clock_hz"), ())
        return Reading(seconds, median(clocks) if clocks else None)

    return once


def clocked(clock: DeviceClock, measure: Callable[[], float]) -> Reading:
    """What `measure` gives, with the SM clock between a stamp before it and one after it."""
    clock.used = 0
    first = clock.stamp()
    seconds = measure()
    last = clock.stamp()
    return Reading(seconds, clock.clocks_hz([(first, last)])[0])


def makers(request: Request, device: DeviceSide, step: Step) -> Mapping[str, Maker]:
    """The timers of the request's device by name, ours first."""
    case, protocol = request.case, request.protocol
    if case.device != "cuda":
        return {"wall": lambda: ours(device.timer(case), step, protocol), "torch_timer": lambda: torch_timer(step)}
    from bench.worker.cuda_clock import DeviceClock

    clock = DeviceClock()
    return {
        "events": lambda: ours(device.timer(case), step, protocol),
        "cuda_graph": lambda: graph_replay(request, device, step, clock),
        "profiler": lambda: profiler_busy(step, clock),
        "events_at_their_flush": lambda: ours_at_their_flush(step, protocol),
        "do_bench": lambda: do_bench(step, clock),
    }


def compare(request: Request, rounds: int) -> dict[str, Json]:
    """All timers of the request's device in turn; one that fails is left out from then on, with its reason."""
    device = open_device(request)
    with torch.no_grad():
        step = built_step(request, device)
        seconds: dict[str, list[float]] = {}
        clocks_hz: dict[str, list[float | None]] = {}
        failed: dict[str, str] = {}
        ready: dict[str, Round] = {}
        for name, make in makers(request, device, step).items():
            made = _tried(name, failed, make)
            if made is not None:
                ready[name] = made
        for number in range(rounds):
            names = [name for name in ready if name not in failed]
            for name in names if number % 2 == 0 else names[::-1]:
                reading = _tried(name, failed, ready[name])
                if reading is not None:
                    seconds.setdefault(name, []).append(reading.seconds)
                    clocks_hz.setdefault(name, []).append(reading.clock_hz)
    return {"seconds": seconds, "clocks_hz": clocks_hz, "failed": failed, "fault": None}


def _tried(name: str, failed: dict[str, str], action: Callable[[], T]) -> T | None:
    """What `action` gives; None, with the reason in `failed`, where it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - somebody else's timer; what it said is the answer, and the others go on
        failed[name] = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        return None


def torch_timer(step: Step) -> Round:
    """`torch.utils.benchmark` on a CPU, with one thread as here."""
    from torch.utils.benchmark import Timer

    timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
    return lambda: Reading(float(timer.blocked_autorange(min_run_time=0.1).median))


def graph_replay(request: Request, device: DeviceSide, step: Step, clock: DeviceClock) -> Round:
    """Our graph timer: replays, the flush's own time subtracted."""
    timer = device.timer(dataclasses.replace(request.case, timer="cuda_graph"))
    timer.sample(step, 1)
    return lambda: clocked(clock, lambda: median([timer.sample(step, 1) for _ in range(GRAPH_SAMPLES)]))


def ours_at_their_flush(step: Step, protocol: Protocol) -> Round:
    """Our event timer with the buffer that do_bench flushes, which is larger than the L2."""
    from triton.runtime import driver

    from bench.worker.timing_cuda import EventTimer

    timer = EventTimer(flush=True)
    timer._flush = driver.active.get_empty_cache_for_benchmark()
    return ours(timer, step, protocol)


def do_bench(step: Step, clock: DeviceClock) -> Round:
    """Triton's `do_bench` as it is shipped, with its own warm-up and length."""
    from triton.testing import do_bench as measure

    step.prepare()
    return lambda: clocked(clock, lambda: float(measure(step, return_mode="median")) * 1e-3)


def profiler_busy(step: Step, clock: DeviceClock) -> Round:
    """The device's busy time per call: the union of the intervals of all kernels but the flush's and the clock's.

    The stamps stand within the profiled region: before and after it the GPU idles for long, at another clock.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    flush = torch.empty(properties.L2_cache_size // 4, dtype=torch.int32, device="cuda")

    def ours_alone() -> None:
        flush.zero_()
        clock.stamp()

    def flushes_and_calls() -> None:
        clock.stamp()
        for _ in range(PROFILED_CALLS):
            flush.zero_()
            step()
        clock.stamp()

    not_the_calls = {name for name, _, _ in _device_intervals(ours_alone)}

    def once() -> Reading:
        step.prepare()
        clock.used = 0
        intervals = [(begin, end) for name, begin, end in _device_intervals(flushes_and_calls) if name not in not_the_calls]
        if not intervals:
            raise RuntimeError("the profiler reported no kernels of the call")
        return Reading(union_ns(intervals) * 1e-9 / PROFILED_CALLS, clock.clocks_hz([(0, 1)])[0])

    once()
    return once


def _device_intervals(work: Callable[[], object]) -> list[tuple[str, int, int]]:
    """(name, begin, end) in ns of everything that the device ran for `work`, waits for events excluded."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        work()
        torch.cuda.synchronize()
    events = profile.profiler.kineto_results.events()
    return [
        (event.name(), event.start_ns(), event.start_ns() + event.duration_ns())
        for event in events
        if event.device_type().name == "CUDA" and "Sync" not in event.name()
    ]


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of the union: what runs at the same time counts once."""
    total = 0
    reached: int | None = None
    for begin, end in sorted(intervals):
        start = begin if reached is None else max(begin, reached)
        total += max(0, end - start)
        reached = end if reached is None else max(reached, end)
    return total


def answer(directory: Path, name: str, request: Request, rounds: int) -> None:
    """Writes the file of one request, whatever happens to it."""
    found: dict[str, Any]
    try:
        found = compare(request, rounds)
    except Exception as error:  # noqa: BLE001 - the boundary: the other requests are answered all the same
        found = {"seconds": {}, "clocks_hz": {}, "failed": {}, "fault": f"{type(error).__name__}: {error}"[:LONGEST_REASON]}
    temporary = directory / f"{name}.json.partial"
    temporary.write_text(json.dumps(found))
    temporary.replace(directory / f"{name}.json")


def main() -> int:
    line = sys.stdin.readline()
    if not line:
        return 0  # the parent has changed its mind
    asked = json.loads(line)
    for name, data in asked["requests"].items():
        answer(Path(asked["directory"]), name, load(Request, data), int(asked["rounds"]))
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
