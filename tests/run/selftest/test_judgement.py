from __future__ import annotations

import pytest

from bench.run.selftest.judgement import (
    Judgement,
    Verdict,
    agreement,
    agreement_in_cycles,
    at_most,
    cannot_tell,
    exact,
    excused,
    exit_code,
    slow_down,
    spin,
    spread,
)


@pytest.mark.parametrize(
    ("length_s", "read_s", "verdict"),
    [
        (10e-6, 12.9e-6, Verdict.PASS),
        (10e-6, 13.1e-6, Verdict.MISS),
        (500e-6, 502.9e-6, Verdict.PASS),
        (500e-6, 496e-6, Verdict.MISS),
        (1e-3, 1.0049e-3, Verdict.PASS),
        (1e-3, 1.0051e-3, Verdict.MISS),
        (5e-3, 5.02e-3, Verdict.PASS),
    ],
)
def test_a_spin_may_be_off_by_three_microseconds_when_short_and_by_half_a_per_cent_when_long(
    length_s: float, read_s: float, verdict: Verdict
) -> None:
    assert spin("spins", "x", length_s, [[read_s, read_s, read_s * 3]]).verdict is verdict


def test_a_spin_is_judged_by_the_median_of_the_trials_medians() -> None:
    line = spin("spins", "x", 1e-3, [[1e-3, 1e-3], [9e-3, 9e-3], [1.001e-3, 1.001e-3]])
    assert line.measured == pytest.approx(1.001e-3)
    assert line.beside["samples"] == 6


def test_one_byte_too_many_is_a_miss() -> None:
    assert exact("memory", "peak", 8_000_004, 8_000_004).verdict is Verdict.PASS
    assert exact("memory", "peak", 8_000_004, 8_000_005).verdict is Verdict.MISS


def test_an_injected_slow_down_is_seen_only_where_every_round_shows_it_and_the_ratio_is_right() -> None:
    base = [1.0, 1.0, 1.0]
    assert slow_down("s", 0.02, 1.02, base, [1.02, 1.021, 1.019]).verdict is Verdict.PASS
    assert slow_down("s", 0.02, 1.02, base, [1.02, 1.02, 0.999]).verdict is Verdict.MISS
    assert slow_down("s", 0.05, 1.05, base, [1.02, 1.021, 1.019]).verdict is Verdict.MISS
    line = slow_down("s", 0.10, 1.10, [1.0, 2.0, 1.0], [1.1, 2.2, 1.1])
    assert (line.low, line.measured, line.high) == pytest.approx((1.1, 1.1, 1.1))


def test_timers_agree_within_a_share_above_200_us_and_within_microseconds_below() -> None:
    assert agreement("t", "x", [1e-3] * 3, [1.019e-3] * 3, within=0.02, within_s=5e-6).verdict is Verdict.PASS
    assert agreement("t", "x", [1e-3] * 3, [1.021e-3] * 3, within=0.02, within_s=5e-6).verdict is Verdict.MISS
    assert agreement("t", "x", [50e-6] * 3, [54e-6] * 3, within=0.02, within_s=5e-6).verdict is Verdict.PASS
    assert agreement("t", "x", [50e-6] * 3, [56e-6] * 3, within=0.02, within_s=5e-6).verdict is Verdict.MISS


def test_a_machine_that_drifts_over_the_rounds_does_not_make_timers_disagree() -> None:
    drifting = [1e-3, 1.2e-3, 1.5e-3, 1.1e-3]
    assert agreement("t", "x", drifting, [value * 1.001 for value in drifting], within=0.02).measured == pytest.approx(1.001)


HZ = {"ours": 1.71e9, "theirs": 1.49e9}


def both(ours_s: float, theirs_s: float, ours_hz: float | None, theirs_hz: float | None) -> tuple[Judgement, Judgement]:
    ours, theirs = [ours_s] * 3, [theirs_s] * 3
    line = agreement("t", "x", ours, theirs, within=0.02)
    return agreement_in_cycles(line, ours, theirs, [ours_hz] * 3, [theirs_hz] * 3, within=0.02)


def test_a_timer_that_slows_a_power_capped_gpu_is_judged_in_cycles() -> None:
    time, cycles = both(1e-3, 1e-3 * 1.71 / 1.49, HZ["ours"], HZ["theirs"])
    assert time.verdict is Verdict.CANNOT_TELL
    assert (time.reason or "").startswith("clocks differ (1.49 against 1.71 GHz)")
    assert (cycles.verdict, cycles.what) == (Verdict.PASS, "x, in cycles")
    assert cycles.measured == pytest.approx(1.0)
    assert exit_code([time, cycles]) == 0, "what another line decides does not count"


def test_clocks_do_not_excuse_a_timer_that_is_wrong_in_cycles_too() -> None:
    time, cycles = both(1e-3, 2e-3, HZ["ours"], HZ["theirs"])
    assert cycles.verdict is Verdict.MISS
    assert exit_code([time, cycles]) == 1
    time, cycles = both(1e-3, 1.05e-3, 1.98e9, 1.985e9)
    assert time.verdict is Verdict.MISS, "the clocks are the same"


def test_a_call_bound_by_memory_agrees_in_time_and_its_cycles_decide_nothing() -> None:
    time, cycles = both(1e-3, 1.001e-3, HZ["ours"], HZ["theirs"])
    assert (time.verdict, cycles.verdict) == (Verdict.PASS, Verdict.CANNOT_TELL)
    assert exit_code([time, cycles]) == 0


def test_without_a_clock_on_both_sides_the_time_decides_alone() -> None:
    time, cycles = both(1e-3, 1e-3, HZ["ours"], None)
    assert (time.verdict, cycles.verdict) == (Verdict.PASS, Verdict.CANNOT_TELL)
    assert exit_code([time, cycles]) == 0


def test_the_spread_between_processes_is_that_of_their_medians() -> None:
    line = spread("s", "x", [[1.0, 1.0, 5.0], [1.01, 1.01, 1.01], [0.99, 0.99, 0.2]], 0.02)
    assert line.measured == pytest.approx(0.01)
    assert line.verdict is Verdict.PASS
    assert line.beside["processes"] == 3
    assert spread("s", "x", [[1.0], [1.1], [0.9]], 0.02).verdict is Verdict.MISS


def test_a_disturbance_excuses_a_miss_and_leaves_a_pass_alone() -> None:
    miss, passed = exact("m", "x", 1, 2), exact("m", "x", 1, 1)
    excuse = excused(miss, "others computed")
    assert (excuse.verdict, excuse.reason) == (Verdict.CANNOT_TELL, "others computed")
    assert excused(miss, None) is miss
    assert excused(passed, "others computed") is passed


def test_a_miss_outweighs_what_cannot_be_told_and_nothing_at_all_is_no_pass() -> None:
    passed, missed, unknown = at_most("z", "x", 1.0, 2.0, "s", "≤ 2 s"), exact("m", "x", 1, 2), cannot_tell("p", "x", "why")
    assert exit_code([passed, passed]) == 0
    assert exit_code([passed, unknown, missed]) == 1
    assert exit_code([passed, unknown]) == 3
    assert exit_code([]) == 3


def test_a_line_that_cannot_be_told_has_its_reason() -> None:
    assert cannot_tell("p", "x", "why") == Judgement("p", "x", Verdict.CANNOT_TELL, reason="why")
