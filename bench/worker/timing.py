"""How many samples, and when: warm-up until the time is stable, and the rule that ends sampling. The same on every device.

A timer (timing_cpu.py; its CUDA sibling) only knows how to take one sample. Everything that decides lives here, on a clock that
tests can replace.

**Warm-up.** Windows of samples are compared: warm when the medians of two windows in a row agree as closely as the timer asks, or
when the protocol's time is over. A window has at least three samples and lasts at least 10 ms, so that one lucky pair proves nothing.

**Stopping** (nvbench's stdrel criterion, with a target for the mean). Never above max_samples and, where that allows three, never
below three, whatever min_samples says. Once there are min_samples over min_sampling_s, stop when the standard error of the mean is
below the target, or when the noise has settled: of the last 512 values of stdev / mean, taken after each sample, more than 64 exist
and their own relative deviation is below 5 % (looked at every 16 samples). More samples would not change the picture then. After
max_sampling_s stop all the same. Where there are fewer than 30 samples a note says so, and why there are no more.

Why not drop outliers: they are the machine's, and the median does not see them. All samples are kept.
"""

from __future__ import annotations

import gc
import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from bench.records import Json, Measurement
from bench.records import Protocol as SamplingProtocol
from bench.stats import median, relative_spread
from bench.worker.team import Team

FEWEST_SAMPLES = 3
ENOUGH_SAMPLES = 30
SHORTEST_SAMPLE_S = 50e-6
"""A sample shorter than this would be a measurement of the clock: calls are put back to back until it is reached."""
MOST_CALLS_PER_SAMPLE = 1024

WINDOW_S = 0.010

SETTLED_WITHIN = 0.05
SETTLED_RING = 512
SETTLED_LEAST = 64
SETTLED_EVERY = 16

_CAUSES = {
    "noise": "the protocol asks for no more, and the noise was below its target",
    "settled": "the protocol asks for no more, and the noise had settled",
    "time": "the time for sampling was over",
    "count": "the protocol allows no more",
}


class Timed(Protocol):
    """What is timed: a `Step`, or a fake in a test."""

    def prepare(self, calls: int = 1) -> None: ...

    def __call__(self) -> object: ...


class SampleTimer(Protocol):
    """How one sample is taken on a device."""

    batches: bool
    """Whether several calls may share a sample (not when caches are flushed before each)."""
    warm_within: float
    """Two windows' medians that differ by less, relatively, are the same."""

    @property
    def least_warmup_s(self) -> float:
        """Warm-up lasts at least this long, whatever the windows say: clocks and power need it to settle. Asked after each window."""

    def now(self) -> float:
        """Monotonic seconds of the host."""

    def sample(self, step: Timed, calls: int) -> float:
        """Prepares, then runs `calls` calls; returns the seconds of one call."""

    def begin_sampling(self) -> None:
        """Forgets what it saw during warm-up."""

    def measurements(self) -> tuple[Measurement, ...]:
        """What the timer saw beside time during sampling (clocks, cycles).

        Raises Unsupported where it now knows that its samples are no times of a call.
        """

    def conditions(self) -> dict[str, Json]:
        """Flags and facts of the sampling (`launch_bound`, clock blocks)."""


@dataclass(frozen=True, slots=True)
class Warmup:
    calls: int
    stable: bool


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds of one call each, in the order taken."""

    seconds: tuple[float, ...]
    calls_per_sample: int
    stopped_by: str
    """`noise`, `settled`, `time` or `count`."""

    def note(self) -> str | None:
        """What a reader must know about these samples, or None."""
        n = len(self.seconds)
        return f"n = {n} < {ENOUGH_SAMPLES}: {_CAUSES[self.stopped_by]}" if n < ENOUGH_SAMPLES else None


class StoppingRule:
    """Sees each sample once; O(1) a sample."""

    def __init__(self, protocol: SamplingProtocol) -> None:
        self._protocol = protocol
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._noise: deque[float] = deque(maxlen=SETTLED_RING)

    def add(self, seconds: float) -> None:
        """Welford's running mean and sum of squared deviations."""
        self._n += 1
        delta = seconds - self._mean
        self._mean += delta / self._n
        self._squares += delta * (seconds - self._mean)
        if self._n >= 2 and self._mean > 0.0:
            self._noise.append(math.sqrt(self._squares / (self._n - 1)) / self._mean)

    def verdict(self, elapsed_s: float) -> str | None:
        """Why to stop after `elapsed_s` of sampling, or None."""
        protocol = self._protocol
        if self._n >= protocol.max_samples:
            return "count"
        if self._n >= max(protocol.min_samples, FEWEST_SAMPLES) and elapsed_s >= protocol.min_sampling_s:
            if self._noise and self._noise[-1] / math.sqrt(self._n) <= protocol.target_relative_noise:
                return "noise"
            if self._settled():
                return "settled"
        if self._n >= FEWEST_SAMPLES and elapsed_s >= protocol.max_sampling_s:
            return "time"
        return None

    def _settled(self) -> bool:
        if len(self._noise) <= SETTLED_LEAST or self._n % SETTLED_EVERY:
            return False
        spread = relative_spread(tuple(self._noise))
        return spread is None or spread < SETTLED_WITHIN


def calls_per_sample(timer: SampleTimer, step: Timed, team: Team) -> int:
    """A power of two, so that trials of one case rarely differ; 1 where one call is long enough.

    All ranks make the same number of calls, whatever each of them measures: a call may wait for the other ranks.
    """
    if not timer.batches:
        return team.agree(1)
    shortest = timer.sample(step, 1)
    for _ in range(4):
        if team.agree(int(shortest > 10 * SHORTEST_SAMPLE_S)):
            break  # no repetition will bring it near, and it may take seconds
        shortest = min(shortest, timer.sample(step, 1))
    calls = 1
    while calls < MOST_CALLS_PER_SAMPLE and shortest * calls < SHORTEST_SAMPLE_S:
        calls *= 2
    return team.agree(calls)


def warm_up(timer: SampleTimer, step: Timed, calls: int, protocol: SamplingProtocol, team: Team) -> Warmup:
    """Samples that are thrown away, until two windows agree."""
    start = timer.now()
    before: float | None = None
    made = 0
    while True:
        window: list[float] = []
        window_start = timer.now()
        enough = False
        while not enough:
            team.barrier()
            window.append(timer.sample(step, calls))
            made += calls
            now = timer.now()
            over = now - start >= protocol.max_warmup_s
            enough = bool(team.agree(int(over or (len(window) >= FEWEST_SAMPLES and now - window_start >= WINDOW_S))))
        centre = median(window)
        elapsed = timer.now() - start
        stable = before is not None and abs(centre - before) <= timer.warm_within * before and elapsed >= timer.least_warmup_s
        over = elapsed >= protocol.max_warmup_s
        if team.agree(int(stable or over)):
            return Warmup(made, bool(team.agree(int(stable))))
        before = centre


def take_samples(timer: SampleTimer, step: Timed, calls: int, protocol: SamplingProtocol, team: Team) -> Samples:
    """The timed region of a trial: a common start of each sample on all ranks, one decision to stop. Call it `without_collection`."""
    rule = StoppingRule(protocol)
    seconds: list[float] = []
    verdicts = ("", "noise", "settled", "time", "count")
    timer.begin_sampling()
    start = timer.now()
    while True:
        team.barrier()
        taken = timer.sample(step, calls)
        seconds.append(taken)
        rule.add(taken)
        verdict = verdicts[team.agree(verdicts.index(rule.verdict(timer.now() - start) or ""))]
        if verdict:
            return Samples(tuple(seconds), calls, verdict)


@contextmanager
def without_collection() -> Iterator[None]:
    """Collects garbage now, and not while the block runs."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
