"""One series on two sides: what the rules say of noise, memory, errors, clocks, GPUs and numbers that are none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from bench.judge.values import Noise, Reading, Sides, read
from bench.judge.verdict import Word
from tests.judge.sides import noisy

MIB = 2**20


def reading(first: Sequence[float], second: Sequence[float], metric: str = "time_s", **more: Any) -> Reading:
    return read(Sides(metric, more.pop("workload", "attention"), {"": first}, {"": second}, **more))


@pytest.mark.parametrize(("factor", "word"), [(1.10, Word.WORSE), (1 / 1.10, Word.BETTER), (1.0, Word.SAME)])
def test_a_time_is_worse_better_or_the_same(factor: float, word: Word) -> None:
    rng = random.Random(1)
    found = reading(noisy(rng, 1e-2, 0.003, 5), noisy(rng, 1e-2 * factor, 0.003, 5))
    assert found.word is word
    assert found.ratio is not None
    assert found.ratio.interval is not None
    assert found.ratio.interval.low < factor < found.ratio.interval.high
    assert found.n_first == found.n_second == 5


def test_better_and_worse_change_places_with_the_sides() -> None:
    rng = random.Random(2)
    a, b = noisy(rng, 1e-2, 0.004, 5), noisy(rng, 1.08e-2, 0.004, 5)
    assert (reading(a, b).word, reading(b, a).word) == (Word.WORSE, Word.BETTER)


def test_three_processes_are_enough_where_the_interval_is_narrow_and_sixteen_are_not_where_it_is_wide() -> None:
    rng = random.Random(3)
    assert reading(noisy(rng, 1.0, 0.001, 3), noisy(rng, 1.2, 0.001, 3)).word is Word.WORSE
    wide = reading(noisy(rng, 1.0, 0.3, 16), noisy(rng, 1.05, 0.3, 16))
    assert wide.word is Word.INSUFFICIENT
    assert "wider" in wide.reason


@pytest.mark.parametrize("n", [1, 2])
def test_below_three_processes_there_is_a_ratio_and_no_verdict(n: int) -> None:
    found = reading([1.0] * n, [9.0] * n)
    assert found.word is Word.INSUFFICIENT
    assert found.ratio is not None
    assert (found.ratio.value, found.ratio.interval, found.p) == (9.0, None, None)
    assert found.enough_trials == 5


def test_a_difference_within_the_margin_that_is_not_shown_to_be_small_is_ambiguous_and_says_how_many_trials_settle_it() -> None:
    first, second = [1.0, 1.012, 0.988, 1.02, 0.98], [1.04, 1.052, 1.028, 1.06, 1.02]
    found = reading(first, second)
    assert found.word is Word.AMBIGUOUS
    assert found.enough_trials is not None
    assert 5 < found.enough_trials <= 16
    assert found.smallest_detectable is not None
    assert 0.03 < found.smallest_detectable < 0.10


def test_a_difference_below_a_microsecond_is_nothing() -> None:
    rng = random.Random(5)
    assert reading(noisy(rng, 5.0e-6, 0.001, 5), noisy(rng, 5.6e-6, 0.001, 5)).word is not Word.WORSE
    assert reading(noisy(rng, 5.0e-4, 0.001, 5), noisy(rng, 5.6e-4, 0.001, 5)).word is Word.WORSE
    step = reading(noisy(rng, 1e-3, 0.0001, 5), noisy(rng, 1.09e-3, 0.0001, 5), workload="train_step")
    assert step.word is not Word.WORSE


def test_sides_measured_in_turn_need_half_the_floor() -> None:
    rng = random.Random(6)
    a, b = noisy(rng, 1.0, 0.0005, 5), noisy(rng, 1.016, 0.0005, 5)
    assert reading(a, b).word is Word.SAME
    assert reading(a, b, interleaved=True).word is Word.WORSE


def test_the_band_grows_with_the_spread_of_earlier_processes_from_thirty_on() -> None:
    rng = random.Random(7)
    a, b = noisy(rng, 1.0, 0.001, 5), noisy(rng, 1.06, 0.001, 5)
    assert reading(a, b, noise=Noise(within=0.1, processes=29)).word is Word.WORSE
    wide = reading(a, b, noise=Noise(within=0.1, processes=30))
    assert wide.word is not Word.WORSE
    assert wide.threshold is not None
    assert wide.threshold.source == "spread of 30 earlier processes"
    assert wide.threshold.relative == pytest.approx(0.0936, abs=1e-3)


def test_runs_that_always_differ_by_so_much_widen_the_band_unless_sides_were_measured_in_turn() -> None:
    rng = random.Random(8)
    a, b = noisy(rng, 1.0, 0.001, 5), noisy(rng, 1.06, 0.001, 5)
    assert reading(a, b, noise=Noise(between=0.03, runs=8)).word is not Word.WORSE
    assert reading(a, b, noise=Noise(between=0.03, runs=8), interleaved=True).word is Word.WORSE


def test_where_others_held_the_cores_only_a_large_difference_is_told() -> None:
    rng = random.Random(14)
    a = noisy(rng, 1.0, 0.01, 5)
    small, large = (reading(a, noisy(rng, factor, 0.01, 5), crowded=True) for factor in (1.2, 1.5))
    assert (small.word, large.word) == (Word.AMBIGUOUS, Word.WORSE)
    assert small.threshold is not None
    assert small.threshold.source == "other processes held the cores"


def test_a_time_that_differs_while_the_cycles_agree_is_the_clock() -> None:
    rng = random.Random(9)
    a, b = noisy(rng, 1.0, 0.002, 5), noisy(rng, 1.06, 0.002, 5)
    same, more = noisy(rng, 1e9, 0.0005, 5), noisy(rng, 1.06e9, 0.0005, 5)
    cycles = {"cycles_first": {"": noisy(rng, 1e9, 0.0005, 5)}}
    clock = reading(a, b, cycles_second={"": same}, **cycles)
    assert (clock.word, "clock" in clock.reason) == (Word.AMBIGUOUS, True)
    assert reading(a, b, cycles_second={"": more}, **cycles).word is Word.WORSE
    in_turn = reading(a, b, cycles_second={"": same}, interleaved=True, **cycles)
    assert (in_turn.word, "clock" in " ".join(in_turn.notes)) == (Word.WORSE, True)


def test_what_only_cycles_show_is_told_beside_the_time() -> None:
    rng = random.Random(10)
    a, b = noisy(rng, 1.0, 0.03, 5), noisy(rng, 1.04, 0.03, 5)
    found = reading(a, b, cycles_first={"": noisy(rng, 1e9, 0.0005, 5)}, cycles_second={"": noisy(rng, 1.04e9, 0.0005, 5)})
    assert found.word in (Word.AMBIGUOUS, Word.INSUFFICIENT)
    assert any("in cycles it is worse" in note for note in found.notes)


def test_gpus_are_blocks_and_two_gpus_without_a_common_one_tell_nothing_small() -> None:
    rng = random.Random(11)

    def side(slow: float, fast: float) -> dict[str, list[float]]:
        return {"GPU-1": noisy(rng, slow, 0.001, 4), "GPU-2": noisy(rng, fast, 0.001, 4)}

    both = read(Sides("time_s", "attention", side(1.05, 1.0), side(1.08, 1.03)))
    assert both.word is Word.WORSE
    other = read(Sides("time_s", "attention", {"GPU-1": noisy(rng, 1.0, 0.001, 5)}, {"GPU-2": noisy(rng, 1.04, 0.001, 5)}))
    assert other.word is not Word.WORSE
    assert "GPU" in " ".join(other.notes)
    far = read(Sides("time_s", "attention", {"GPU-1": noisy(rng, 1.0, 0.001, 5)}, {"GPU-2": noisy(rng, 1.2, 0.001, 5)}))
    assert far.word is Word.WORSE


def test_processes_on_a_gpu_without_the_other_side_are_left_out_and_counted() -> None:
    rng = random.Random(12)
    found = read(
        Sides(
            "time_s",
            "attention",
            {"GPU-1": noisy(rng, 1.0, 0.001, 4), "GPU-3": noisy(rng, 9.0, 0.001, 3)},
            {"GPU-1": noisy(rng, 1.0, 0.001, 4)},
        )
    )
    assert found.word is Word.SAME
    assert any(note.startswith("3 processes") for note in found.notes)


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ([100 * MIB] * 3, [100 * MIB] * 3, Word.SAME),
        ([100 * MIB] * 3, [120 * MIB] * 3, Word.WORSE),
        ([120 * MIB] * 3, [100 * MIB] * 3, Word.BETTER),
        ([1 * MIB] * 3, [2 * MIB] * 3, Word.WORSE),
        ([1000 * MIB, 1001 * MIB, 1002 * MIB], [1012 * MIB, 1013 * MIB, 1010 * MIB], Word.SAME),
        ([1000 * MIB, 1001 * MIB, 1200 * MIB], [1100 * MIB, 1101 * MIB, 1102 * MIB], Word.AMBIGUOUS),
        ([0.0] * 3, [0.0] * 3, Word.SAME),
        ([0.0] * 3, [50.0 * MIB] * 3, Word.WORSE),
        ([1024.0] * 3, [2048.0] * 3, Word.SAME),
    ],
)
def test_memory_is_judged_by_ranges_and_floors(first: list[float], second: list[float], word: Word) -> None:
    found = reading(first, second, "peak_bytes")
    assert found.word is word
    assert found.p is None


def test_one_process_of_memory_is_judged_with_the_whole_floor_and_says_so() -> None:
    found = reading([100.0 * MIB], [110.0 * MIB], "peak_bytes")
    assert (found.word, found.notes) == (Word.SAME, ("one process on a side",))
    assert reading([100.0 * MIB], [120.0 * MIB], "peak_bytes").word is Word.WORSE


def test_every_byte_of_weights_counts() -> None:
    assert reading([4096.0], [4097.0], "weight_bytes").word is Word.WORSE
    assert reading([4096.0], [4095.0], "weight_bytes").word is Word.BETTER


def test_an_error_that_wanders_with_its_inputs_is_the_same_and_one_that_grows_threefold_towards_its_limit_is_worse() -> None:
    # What other inputs did to one kernel's error on an H200, and somewhat more.
    assert reading([0.185], [0.352], "error_share").word is Word.SAME
    assert reading([0.185], [0.45], "error_share").word is Word.SAME
    assert reading([0.001], [0.05], "error_share").word is Word.SAME
    assert reading([0.20], [0.75], "error_share").word is Word.WORSE
    assert reading([0.010, 0.011, 0.012], [0.012, 0.013, 0.011], "output_error").word is Word.SAME
    assert reading([0.010, 0.011, 0.012], [0.09, 0.10, 0.11], "output_error").word is Word.WORSE


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), 0.0, -1.0, 5e-324, 1e308])
def test_a_time_that_is_none_is_invalid_and_never_equal(bad: float) -> None:
    assert reading([1.0, 1.0, 1.0], [1.0, bad, 1.0]).word is Word.INVALID


def test_times_that_do_not_vary_are_compared_as_they_are() -> None:
    assert reading([1.0] * 3, [1.0] * 3).word is Word.SAME
    changed = reading([1.0] * 3, [1.5] * 3)
    assert (changed.word, changed.p) == (Word.WORSE, None)


def test_one_row_among_many_may_be_chance() -> None:
    rng = random.Random(13)
    found = reading(noisy(rng, 1.0, 0.003, 5), noisy(rng, 1.1, 0.003, 5))
    assert found.settled(0.04, 500).word is Word.WORSE
    chance = found.settled(0.06, 500)
    assert (chance.word, "500 rows" in chance.reason) == (Word.AMBIGUOUS, True)
