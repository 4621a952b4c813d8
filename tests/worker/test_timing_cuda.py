"""What the CUDA timers decide, without a GPU: how long to wait before a sample, and when a difference is a time."""

from __future__ import annotations

import pytest
import torch

from bench.worker.cuda_clock import FIELDS, MOST_STAMPS, DeviceClock
from bench.worker.timing_cuda import (
    BLIND_AFTER,
    LONGEST_WAIT_S,
    SHORTEST_WAIT_S,
    STEADY_WARMUP_S,
    UNHINDERED_WARMUP_S,
    WAIT_FACTOR,
    Wait,
    least_warmup_s,
)
from bench.worker.timing_graph import too_short


def learned(wait: Wait, times: int, enqueue_s: float, *, fired: bool, ahead_share: float = 0.0) -> None:
    for _ in range(times):
        wait.learn(enqueue_s, fired=fired, waited_s=wait.seconds(), ahead_share=ahead_share)


def test_the_wait_covers_what_enqueueing_takes() -> None:
    wait = Wait()
    assert wait.seconds() == LONGEST_WAIT_S
    learned(wait, 16, 200e-6, fired=False)
    assert wait.seconds() == pytest.approx(WAIT_FACTOR * 200e-6)
    learned(wait, 16, 1e-6, fired=False)
    assert wait.seconds() == SHORTEST_WAIT_S


def test_one_pause_of_the_host_does_not_end_the_waiting() -> None:
    wait = Wait()
    learned(wait, 16, 16e-3, fired=False)
    assert wait.seconds() == LONGEST_WAIT_S
    for _ in range(10):
        learned(wait, BLIND_AFTER - 1, 80e-3, fired=True)
        learned(wait, 1, 16e-3, fired=False)
    assert wait.seconds() == LONGEST_WAIT_S


def test_a_subject_that_waits_for_the_device_ends_it_and_sampling_tries_again() -> None:
    wait = Wait()
    learned(wait, BLIND_AFTER, 80e-3, fired=True)
    assert wait.seconds() == SHORTEST_WAIT_S
    learned(wait, 3, 80e-3, fired=True)
    assert wait.seconds() == SHORTEST_WAIT_S
    wait.begin_sampling()
    assert wait.seconds() == LONGEST_WAIT_S
    assert wait.conditions()["samples_started_early"] == 0


def test_launch_bound_is_a_share_of_the_samples_that_were_looked_at() -> None:
    wait = Wait()
    learned(wait, 96, 1e-6, fired=False)
    learned(wait, 4, 1e-6, fired=True)
    assert not wait.launch_bound
    learned(wait, 2, 1e-6, fired=True)
    assert wait.launch_bound
    wait.begin_sampling()
    assert not wait.launch_bound


def test_a_step_whose_launches_no_wait_covers_is_launch_bound_only_where_the_device_had_nothing_in_stock() -> None:
    for ahead_share, bound in ((0.2, False), (0.02, True)):
        wait = Wait()
        learned(wait, 6, 434e-3, fired=True, ahead_share=ahead_share)
        assert wait.launch_bound is bound
        assert wait.conditions()["host_ahead_share"] == ahead_share
        assert wait.conditions()["samples_started_early"] == 6


def test_a_call_that_a_wait_covers_holds_launch_gaps_however_long_it_goes_on() -> None:
    wait = Wait()
    learned(wait, 6, 3.5e-3, fired=True, ahead_share=0.7)
    assert wait.launch_bound


def test_one_pause_of_the_host_among_five_samples_is_no_rule() -> None:
    wait = Wait()
    learned(wait, 4, 1e-3, fired=False)
    learned(wait, 1, 1e-3, fired=True)
    assert not wait.launch_bound
    wait.begin_sampling()
    learned(wait, 1, 1e-3, fired=True)
    assert wait.launch_bound


HIGHEST_HZ = 1980e6


@pytest.mark.parametrize(
    ("clocks_hz", "seconds"),
    [
        ([1965e6] * 16, UNHINDERED_WARMUP_S),
        ([None, 1980e6, 300e6, 1965e6, 1965e6, 1965e6], UNHINDERED_WARMUP_S),
        ([1995e6] * 16, UNHINDERED_WARMUP_S),
        ([1920e6] * 16, STEADY_WARMUP_S),
        ([1590e6] * 16, STEADY_WARMUP_S),
        ([1980e6] * 3, STEADY_WARMUP_S),
        ([None] * 16, STEADY_WARMUP_S),
        ([], STEADY_WARMUP_S),
    ],
)
def test_a_clock_that_nothing_holds_back_has_nothing_to_settle_and_one_that_is_not_known_has(
    clocks_hz: list[float | None], seconds: float
) -> None:
    assert least_warmup_s(clocks_hz, HIGHEST_HZ) == seconds
    assert least_warmup_s(clocks_hz, None) == STEADY_WARMUP_S


def test_a_clock_above_the_one_told_as_the_highest_may_be_held_back_and_gets_the_whole_warm_up() -> None:
    rated_hz = 2520e6
    assert least_warmup_s([rated_hz] * 16, rated_hz) == UNHINDERED_WARMUP_S
    for falling_hz in (2760e6, 2610e6):
        assert least_warmup_s([falling_hz] * 16, rated_hz) == STEADY_WARMUP_S


def test_clocks_are_told_of_the_pairs_that_are_asked_for_and_not_across_sms() -> None:
    clock = object.__new__(DeviceClock)
    clock._stamps = torch.zeros(FIELDS * MOST_STAMPS, dtype=torch.int64)
    clock.used = 6
    stamps = [(0, 0, 5), (999, 9, 5), (1000, 1000, 3), (3000, 2000, 3), (4000, 3000, 3), (5500, 4000, 4)]
    clock._stamps[: FIELDS * len(stamps)] = torch.tensor(stamps).flatten()
    assert clock.clocks_hz([(2, 3), (4, 5), (3, 4)]) == [2e9, None, 1e9]
    assert clock.clocks_hz([]) == []


FLUSHES = [20.0e-6 + 0.01e-6 * i for i in range(20)]


def test_a_difference_above_the_flushes_own_spread_is_a_time() -> None:
    assert too_short([1e-6] * 20, FLUSHES) is None


@pytest.mark.parametrize("seconds", [[0.1e-6] * 20, [1e-6] * 19 + [0.0], [-1e-6] * 20])
def test_a_difference_that_the_flushes_explain_is_none(seconds: list[float]) -> None:
    assert "too short for cuda_graph" in str(too_short(seconds, FLUSHES))
