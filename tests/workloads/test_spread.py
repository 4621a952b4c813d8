"""Positions at which a part of a large problem is looked at."""

from __future__ import annotations

import pytest

from bench.workloads.rms_norm._spread import spread


@pytest.mark.parametrize(
    ("size", "wanted", "expected"),
    [
        (10, 3, [1, 5, 9]),
        (9, 3, [2, 5, 8]),
        (7, 100, [0, 1, 2, 3, 4, 5, 6]),
        (7, 1, [6]),
        (7, 0, [6]),
        (1, 5, [0]),
    ],
)
def test_positions_have_equal_steps_and_hold_the_last(size: int, wanted: int, expected: list[int]) -> None:
    positions, count = spread(size, wanted)
    assert list(range(size))[positions] == expected
    assert count == len(expected)


def test_there_are_never_more_than_wanted_and_no_quarter_is_left_out() -> None:
    for size in range(1, 200):
        for wanted in range(1, 50):
            found = list(range(size))[spread(size, wanted)[0]]
            assert 1 <= len(found) <= wanted
            assert found[-1] == size - 1
            if wanted >= 8 and size >= 8:
                assert {4 * position // size for position in found} == {0, 1, 2, 3}
