"""One sample on CUDA: an event pair around the call alone, behind a flush of the L2 and a wait on the device.

Order of one sample, all on one stream: [flush] wait, stamp, start event, the call, stop event, stamp.

* The flush writes a buffer of exactly the L2's size, so that the call finds nothing of its own in the cache (`cache: cold`).
* The wait keeps the device busy until the host has enqueued the whole call. Without it, the gaps between launches would be measured.
  It lasts 1.5 x the longest enqueueing seen lately, within bounds. A subject that waits for the device itself is never covered,
  however long the wait: after some samples in a row that even the longest did not cover, the shortest is used.
* If the start event had fired when enqueueing ended, the wait was too short, or the subject waits for the device itself: then the
  device may have waited for the host within the sample. That is counted, and a row where it happens in more than one sample of twenty is
  `launch_bound`. No wait covers a whole training step, of whose launches the driver takes a thousand or so ahead: there it counts only
  where the device was done almost as soon as the host, and so had nothing in stock.
* The clock of each sample is read on the device (cuda_clock.py).

**How long to warm up.** A GPU answers a load with its clock at once, and goes on correcting it for some hundred milliseconds: on an H200 a
large matrix product runs at 1.59 GHz after 0.06 s, 1.56 after 0.2 s and about 1.49 after 0.5 s, and attention at 1.77 and 1.80 GHz after
0.06 and 0.5 s. Where the clock stands at its highest, 1.98 GHz there, power holds nothing back and nothing has to settle: a large copy
runs at 1.97 GHz after 0.06, 0.2, 0.3 and 0.5 s alike. Of some cards the driver tells the rated boost, which they exceed: a clock above
what is told shows that the highest is not known, and power may hold it back all the same.

Gradients are cleared in `Step.prepare`, before all this.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import torch

from bench.metrics import METRICS
from bench.records import Json, Measurement
from bench.stats import median
from bench.worker.cuda_clock import MOST_STAMPS, DeviceClock, highest_clock_hz
from bench.worker.timing import Timed

SHORTEST_WAIT_S = 50e-6
LONGEST_WAIT_S = 20e-3
WAIT_FACTOR = 1.5
BLIND_AFTER = 5
"""Samples in a row that the longest wait did not cover: one alone may be a pause of the host."""
LAUNCH_BOUND_SHARE = 0.05
EXCUSED_FROM = 5
"""Samples from which on a single early one is a pause of the host and no rule: it does not move their median."""
AHEAD_SHARE = 0.1
"""Of a call that no wait covers: if the device works on for so much of its time after the last launch, it did not wait for the host."""
STEADY_WARMUP_S = 0.5
"""Busy time before a clock is called steady: the power controller needs some hundred milliseconds to settle."""
UNHINDERED_WARMUP_S = 0.1
"""The same where power holds the clock back from nothing."""
UNHINDERED_SHARE = 0.98
"""Of the highest clock: from here on it is the highest, which heat lowers by a step of 15 MHz or two."""
NOT_THE_HIGHEST_SHARE = 1.01
"""Of the clock that is told as the highest: from here on the device runs faster than that, by more than a reading is off."""
CLOCKS_LOOKED_AT = 16
FEWEST_CLOCKS = 4


def least_warmup_s(clocks_hz: Sequence[float | None], highest_hz: float | None) -> float:
    """How long to warm up, given the clocks of the latest samples. None: it could not be read; then the whole time is needed."""
    known = [clock for clock in clocks_hz if clock is not None]
    if highest_hz is None or len(known) < FEWEST_CLOCKS:
        return STEADY_WARMUP_S
    if not UNHINDERED_SHARE <= median(known) / highest_hz <= NOT_THE_HIGHEST_SHARE:
        return STEADY_WARMUP_S
    return UNHINDERED_WARMUP_S


class Wait:
    """How long the device waits for the host before each sample, learned from the samples before. Seconds of the host's clock."""

    def __init__(self) -> None:
        self._enqueue_s: deque[float] = deque(maxlen=16)
        self.begin_sampling()

    def begin_sampling(self) -> None:
        """Starts counting anew, and gives the longest wait another chance; what enqueueing takes is still known."""
        self._blind = False
        self._uncovered_in_a_row = 0
        self._taken = 0
        self._fired = 0
        self._behind = 0
        self._ahead_shares: list[float] = []
        self._longest_enqueue_s = 0.0

    def seconds(self) -> float:
        """Of the next wait."""
        if self._blind or not self._enqueue_s:
            return SHORTEST_WAIT_S if self._blind else LONGEST_WAIT_S
        return min(max(WAIT_FACTOR * max(self._enqueue_s), SHORTEST_WAIT_S), LONGEST_WAIT_S)

    def learn(self, enqueue_s: float, *, fired: bool, waited_s: float, ahead_share: float) -> None:
        """One sample: how long enqueueing took, and whether the start event had fired by then although `waited_s` were waited.

        `ahead_share` is the part of the call's time for which the device worked on after that.
        """
        self._taken += 1
        self._fired += fired
        self._behind += fired and (enqueue_s <= LONGEST_WAIT_S or ahead_share < AHEAD_SHARE)
        self._ahead_shares.append(ahead_share)
        self._longest_enqueue_s = max(self._longest_enqueue_s, enqueue_s)
        self._uncovered_in_a_row = self._uncovered_in_a_row + 1 if fired and waited_s >= LONGEST_WAIT_S else 0
        self._blind = self._blind or self._uncovered_in_a_row >= BLIND_AFTER
        # A call that synchronises teaches us its own length plus the wait's: the bounds above end that.
        self._enqueue_s.append(enqueue_s)

    @property
    def launch_bound(self) -> bool:
        """Whether in too many of the samples the device waited for the host."""
        excused = 1 if self._taken >= EXCUSED_FROM else 0
        return self._behind > max(excused, LAUNCH_BOUND_SHARE * self._taken)

    def conditions(self) -> dict[str, Json]:
        """What a row keeps of it."""
        return {
            "launch_bound": self.launch_bound,
            "samples_started_early": self._fired,
            "host_ahead_share": median(self._ahead_shares) if self._ahead_shares else None,
            "enqueue_s": median(list(self._enqueue_s)) if self._enqueue_s else None,
            "longest_enqueue_s": self._longest_enqueue_s,
            "wait_s": self.seconds(),
        }


class EventTimer:
    """Implements `SampleTimer` on the current CUDA device."""

    batches = False
    warm_within = 0.01

    def __init__(self, flush: bool) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._flush = torch.empty(properties.L2_cache_size // 4, dtype=torch.int32, device="cuda") if flush else None
        self._clock = DeviceClock()
        self._highest_hz = highest_clock_hz(torch.cuda.current_device())
        self._events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        self._wait = Wait()
        self.begin_sampling()

    @property
    def least_warmup_s(self) -> float:
        return least_warmup_s(self._clock.clocks_hz(self._pairs[-CLOCKS_LOOKED_AT:]), self._highest_hz)

    def now(self) -> float:
        return time.perf_counter()

    def begin_sampling(self) -> None:
        """Forgets what was seen during warm-up, but for how long enqueueing takes."""
        self._wait.begin_sampling()
        self._clock.used = 0
        self._pairs: list[tuple[int, int]] = []
        self._seconds: list[float] = []

    def sample(self, step: Timed, calls: int) -> float:
        if calls != 1:
            raise ValueError("one call a sample on CUDA: the caches are flushed before each")
        step.prepare(1)
        start, stop = self._events
        if self._flush is not None:
            self._flush.zero_()
        waited_s = self._wait.seconds()
        self._clock.wait(waited_s)
        # From here to the query: that is what the wait has to cover, the first stamp's launch included.
        enqueue_start = time.perf_counter()
        first = self._clock.stamp()
        start.record()
        kept = step()
        fired = start.query()
        enqueued = time.perf_counter()
        stop.record()
        last = self._clock.stamp()
        stop.synchronize()
        ahead_s = time.perf_counter() - enqueued
        del kept
        seconds = start.elapsed_time(stop) * 1e-3
        self._wait.learn(
            enqueued - enqueue_start, fired=fired, waited_s=waited_s, ahead_share=ahead_s / seconds if seconds else 0.0
        )
        if len(self._pairs) < MOST_STAMPS // 2 - 1:
            self._pairs.append((first, last))
            self._seconds.append(seconds)
        return seconds

    def _known(self) -> list[tuple[float, float]]:
        """(SM clock, seconds) of the samples whose stamps both ran on one SM."""
        clocks = self._clock.clocks_hz(self._pairs)
        return [(clock, seconds) for clock, seconds in zip(clocks, self._seconds, strict=True) if clock is not None]

    def measurements(self) -> tuple[Measurement, ...]:
        """The SM clock of each sample, and cycles = clock x time, where both stamps ran on one SM."""
        known = self._known()
        if not known:
            return ()
        return (
            Measurement("sm_clock_hz", METRICS["sm_clock_hz"].unit, tuple(clock for clock, _ in known)),
            Measurement("cycles", METRICS["cycles"].unit, tuple(clock * seconds for clock, seconds in known)),
        )

    def conditions(self) -> dict[str, Json]:
        facts = self._wait.conditions()
        facts["same_sm_share"] = len(self._known()) / len(self._pairs) if self._pairs else None
        if self._flush is not None:
            facts["flush_bytes"] = self._flush.numel() * 4
        return facts
