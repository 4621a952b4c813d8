"""The rules of warm-up and sampling, on a clock that stands still unless a test moves it."""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Callable, Iterable

import pytest

from bench.records import Protocol
from bench.worker import timing
from bench.worker.team import Alone
from bench.worker.timing_cpu import WallTimer, last_level_cache_bytes


class FakeTimer:
    """Takes the next duration of a sequence for each sample, and lets that much time pass."""

    least_warmup_s = 0.0
    warm_within = 0.03

    def __init__(self, durations: Iterable[float], *, batches: bool = True) -> None:
        self.batches = batches
        self.time = 100.0
        self.taken = 0
        self.collecting: set[bool] = set()
        self._durations = iter(durations)

    def now(self) -> float:
        return self.time

    def begin_sampling(self) -> None:
        self.taken = 0

    def sample(self, step: object, calls: int) -> float:
        duration = next(self._durations)
        self.time += duration * calls
        self.taken += 1
        self.collecting.add(gc.isenabled())
        return duration

    def measurements(self) -> tuple[()]:
        return ()

    def conditions(self) -> dict[str, object]:
        return {}


class Nothing:
    def prepare(self, calls: int = 1) -> None:
        return

    def __call__(self) -> None:
        return


def constant(seconds: float) -> Iterable[float]:
    return itertools.repeat(seconds)


def noisy(seconds: float, sigma: float) -> Iterable[float]:
    draw = random.Random(3)
    return (max(1e-9, draw.gauss(seconds, sigma * seconds)) for _ in itertools.count())


def sample(durations: Iterable[float], **changes: object) -> timing.Samples:
    return timing.take_samples(FakeTimer(durations), Nothing(), 1, Protocol(**changes), Alone())  # type: ignore[arg-type]


def test_a_steady_call_stops_as_soon_as_there_are_enough_samples_over_enough_time() -> None:
    taken = sample(constant(0.010), min_samples=30, min_sampling_s=0.1)
    assert (len(taken.seconds), taken.stopped_by) == (30, "noise")
    taken = sample(constant(0.001), min_samples=30, min_sampling_s=0.1)
    assert len(taken.seconds) in (100, 101)


def test_a_noisy_call_is_sampled_until_the_mean_is_known_well_enough() -> None:
    taken = sample(noisy(0.001, 0.05), target_relative_noise=0.005, max_sampling_s=60.0, min_sampling_s=0.0)
    assert taken.stopped_by in ("noise", "settled")
    assert len(taken.seconds) >= 65


def test_noise_that_has_settled_ends_sampling_before_the_target_is_reached() -> None:
    taken = sample(noisy(0.001, 0.3), target_relative_noise=1e-6, max_sampling_s=60.0)
    assert taken.stopped_by == "settled"
    assert len(taken.seconds) % timing.SETTLED_EVERY == 0
    assert len(taken.seconds) > timing.SETTLED_LEAST


def test_a_slow_call_ends_with_the_time_and_says_that_it_has_few_samples() -> None:
    taken = sample(constant(1.0), max_sampling_s=10.0)
    assert (len(taken.seconds), taken.stopped_by) == (10, "time")
    assert taken.note() == "n = 10 < 30: the time for sampling was over"


def test_there_are_never_fewer_than_three_samples() -> None:
    assert len(sample(constant(100.0), max_sampling_s=3.0).seconds) == 3
    assert len(sample(constant(100.0), min_samples=2, min_sampling_s=0.0).seconds) == 3


def test_unless_the_protocol_allows_no_three() -> None:
    assert len(sample(constant(1.0), min_samples=1, max_samples=1).seconds) == 1


def test_a_note_on_few_samples_names_what_really_ended_sampling() -> None:
    by_count = sample(noisy(0.001, 0.5), min_samples=5, max_samples=5)
    assert by_count.note() == "n = 5 < 30: the protocol allows no more"
    by_noise = sample(constant(0.1), min_samples=5, min_sampling_s=0.0)
    assert by_noise.note() == "n = 5 < 30: the protocol asks for no more, and the noise was below its target"


def test_the_number_of_samples_has_a_limit() -> None:
    taken = sample(noisy(0.001, 0.5), max_samples=40, min_samples=40, target_relative_noise=1e-9)
    assert (len(taken.seconds), taken.stopped_by) == (40, "count")
    assert taken.note() is None


def test_all_samples_are_kept_in_the_order_in_which_they_were_taken() -> None:
    durations = [0.01, 0.5, 0.01, 0.02, 0.01]
    assert sample(durations, min_samples=5, max_samples=5).seconds == tuple(durations)


def test_no_garbage_is_collected_while_samples_are_taken() -> None:
    timer = FakeTimer(constant(0.01))
    with timing.without_collection():
        timing.take_samples(timer, Nothing(), 1, Protocol(), Alone())
    assert timer.collecting == {False}
    assert gc.isenabled()


def test_warm_up_ends_when_two_windows_agree() -> None:
    falling = itertools.chain([0.100, 0.090, 0.080, 0.050, 0.050, 0.050, 0.020, 0.020, 0.020], constant(0.010))
    timer = FakeTimer(falling)
    warm = timing.warm_up(timer, Nothing(), 1, Protocol(max_warmup_s=100.0), Alone())
    assert warm.stable
    # Three windows that still fell, then two that agree.
    assert warm.calls == 15


def test_warm_up_that_never_settles_ends_with_its_time_and_says_so() -> None:
    growing = (0.01 * 1.5**i for i in itertools.count())
    timer = FakeTimer(growing)
    warm = timing.warm_up(timer, Nothing(), 1, Protocol(max_warmup_s=2.0), Alone())
    assert not warm.stable
    assert timer.now() - 100.0 >= 2.0


def test_a_device_that_needs_time_to_settle_gets_it() -> None:
    timer = FakeTimer(constant(0.010))
    timer.least_warmup_s = 0.5
    timing.warm_up(timer, Nothing(), 1, Protocol(max_warmup_s=2.0), Alone())
    assert timer.now() - 100.0 >= 0.5


class Unhindered(FakeTimer):
    """Finds after some samples that there is nothing to settle."""

    @property
    def least_warmup_s(self) -> float:  # type: ignore[override]
        return 0.1 if self.taken >= 3 else 0.5


def test_a_device_that_turns_out_to_need_no_time_to_settle_gets_less() -> None:
    timer = Unhindered(constant(0.010))
    warm = timing.warm_up(timer, Nothing(), 1, Protocol(max_warmup_s=2.0), Alone())
    assert warm.stable
    assert 0.1 <= timer.now() - 100.0 < 0.2


@pytest.mark.parametrize(
    ("seconds", "calls"), [(1e-3, 1), (50e-6, 1), (49e-6, 2), (10e-6, 8), (1e-9, timing.MOST_CALLS_PER_SAMPLE)]
)
def test_short_calls_are_put_back_to_back(seconds: float, calls: int) -> None:
    assert timing.calls_per_sample(FakeTimer(constant(seconds)), Nothing(), Alone()) == calls


def test_calls_are_not_put_back_to_back_when_caches_are_flushed_before_each() -> None:
    assert timing.calls_per_sample(FakeTimer(constant(1e-6), batches=False), Nothing(), Alone()) == 1


class OtherRank:
    """Rank 1 of two: hears what rank 0 decides, whatever it measured itself."""

    rank = 1
    size = 2

    def __init__(self, answers: Iterable[int]) -> None:
        self._answers = iter(answers)

    def barrier(self) -> None:
        return

    def agree(self, value: int) -> int:
        return next(self._answers)


def test_ranks_make_the_same_calls_before_they_have_agreed_on_how_many() -> None:
    """This rank is fast, rank 0 slow: it ends after one call, as rank 0 does, for a second might wait for rank 0 for ever."""
    timer = FakeTimer(constant(1e-6))
    assert timing.calls_per_sample(timer, Nothing(), OtherRank([1, 1])) == 1
    assert timer.taken == 1
    slow = FakeTimer(constant(1.0))
    assert timing.calls_per_sample(slow, Nothing(), OtherRank([0, 0, 0, 0, 8])) == 8
    assert slow.taken == 5


class Ticking:
    """A call that moves the fake clock; what happens in `prepare` takes time too, and must not be counted."""

    def __init__(self) -> None:
        self.ns = 0
        self.log: list[str] = []

    def prepare(self, calls: int = 1) -> None:
        self.ns += 1_000_000
        self.log.append(f"prepare {calls}")

    def __call__(self) -> object:
        self.ns += 5_000
        self.log.append("call")
        return Freed(self)


class Freed:
    def __init__(self, ticking: Ticking) -> None:
        self._ticking = ticking

    def __del__(self) -> None:
        self._ticking.ns += 700


def test_a_sample_is_the_call_alone_and_outputs_are_freed_after_the_clock_has_stopped() -> None:
    step = Ticking()
    assert WallTimer(clock_ns=lambda: step.ns).sample(step, 1) == pytest.approx(5e-6)


def test_a_sample_of_many_calls_is_their_mean() -> None:
    step = Ticking()
    seconds = WallTimer(clock_ns=lambda: step.ns).sample(step, 10)
    assert step.log == ["prepare 10", *["call"] * 10]
    assert seconds == pytest.approx((10 * 5e-6 + 9 * 0.7e-6) / 10)


def test_a_cold_timer_flushes_a_buffer_and_says_how_large() -> None:
    timer = WallTimer(flush_bytes=4096)
    timer.sample(Ticking(), 1)
    assert timer.conditions()["flush_bytes"] == 4096


def test_the_last_level_cache_is_the_largest(tmp_path: object) -> None:
    write_caches: Callable[[str, str], None] = lambda index, size: (  # noqa: E731
        (tmp_path / index).mkdir(),  # type: ignore[operator]
        (tmp_path / index / "size").write_text(size),  # type: ignore[operator]
    )
    assert last_level_cache_bytes(tmp_path) is None  # type: ignore[arg-type]
    write_caches("index0", "48K\n")
    write_caches("index3", "32M\n")
    assert last_level_cache_bytes(tmp_path) == 32 * 2**20  # type: ignore[arg-type]
