"""Durations as people type and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.options import parse_duration, spell_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("20m", 1200), ("20min", 1200), ("1h30m", 5400), ("1.5h", 5400), ("2h 5m 3s", 7503), ("20M", 1200)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "m", "0s", "-5m", "1d", "five minutes", "1m1h", "NaNs", "infs"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (45, "45 s"), (99.6, "2 min"), (720, "12 min"), (7500, "2 h 05 min"), (-1, "0 s")]
)
def test_durations_are_spelled_for_people(seconds: float, text: str) -> None:
    assert spell_duration(seconds) == text


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert parse_duration(text) > 0
    except ValueError:
        return
