"""A path that is written shorter goes through the same points."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.report.drawing.paths import is_boxes, points_of, shorter

_numbers = st.floats(-500, 500).map(lambda number: round(number, 3))
_points = st.lists(st.tuples(_numbers, _numbers), min_size=2, max_size=8)


@given(_points, st.booleans())
@settings(max_examples=60)
def test_every_line_ends_where_it_did_to_a_tenth_of_a_point(points: list[tuple[float, float]], closed: bool) -> None:
    data = "".join(f"{'L' if place else 'M'} {x} {y} " for place, (x, y) in enumerate(points)) + ("z" if closed else "")
    # Two points that are one after rounding are written once.
    places = 1 if any(abs(number) > 12 for point in points for number in point) else 2
    wanted = [(round(x, places), round(y, places)) for x, y in points]
    kept = [point for place, point in enumerate(wanted) if place == 0 or point != wanted[place - 1]]
    made = shorter(data)
    if closed and (len({x for x, _ in wanted}) == 1 or len({y for _, y in wanted}) == 1):
        assert made == ""
    else:
        assert points_of(made) == [(pytest.approx(x, abs=0.001), pytest.approx(y, abs=0.001)) for x, y in kept]
        assert len(made) <= len(data)


def test_lines_along_the_axes_boxes_and_round_marks_have_short_forms() -> None:
    assert shorter("M 10.04 20 L 90 20") == "M10 20H90"
    box = shorter("M 10 20 L 90 20 L 90 40 L 10 40 z")
    assert box == "M10 20H90V40H10z"
    assert is_boxes(box + box)
    assert not is_boxes(shorter("M 10 20 L 90 20 L 90 40 z"))
    assert shorter("M 10 20 L 90 20 L 90 20 L 10 20 z") == ""
    r = 3.3
    curves = [(0.875, 3.3, 1.715, 2.952, 2.333, 2.333), (2.952, 1.715, r, 0.875, r, 0), (r, -0.875, 2.952, -1.715, 2.333, -2.333),
              (1.715, -2.952, 0.875, -r, 0, -r), (-0.875, -r, -1.715, -2.952, -2.333, -2.333), (-2.952, -1.715, -r, -0.875, -r, 0),
              (-r, 0.875, -2.952, 1.715, -2.333, 2.333), (-1.715, 2.952, -0.875, r, 0, r)]  # fmt: skip
    circle = f"M 0 {r} {' '.join('C ' + ' '.join(map(str, curve)) for curve in curves)} z"
    assert shorter(circle) == "M-3.3 0a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0-6.6 0z"


def test_commands_that_nobody_here_writes_stay_as_they_are() -> None:
    assert shorter("M 1 2 T 3 4") == "M 1 2 T 3 4"
    assert shorter("M 1 2 L 3") == "M 1 2 L 3"
