"""Numbers as text."""

from __future__ import annotations

import pytest

from bench.report.numbers import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (1.2e-9, "1.20 ns"),
        (0.001234, "1.23 ms"),
        (0.9996e-3, "1.00 ms"),
        (0.9994e-3, "999 µs"),
        (12.0, "12.0 s"),
        (3600.0, "3600 s"),
    ],
)
def test_seconds_have_three_significant_digits_and_a_unit(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (512, "512 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1.5 * 2**20, "1.50 MiB"), (141 * 2**30, "141 GiB")],
)  # fmt: skip
def test_sizes_are_powers_of_two(value: float, text: str) -> None:
    assert units.size(value) == text


def test_counts_have_no_unit_and_cycles_have_a_prefix() -> None:
    assert units.in_unit(3.0, "count") == "3"
    assert units.range_in_unit(0.0, 0.0, "count") == "0"
    assert units.range_in_unit(2.0, 3.0, "count") == "2–3"
    assert units.in_unit(518494.0, "cycle") == "518 kcycles"
    assert units.range_in_unit(12.4e6, 12.5e6, "cycle") == "12.4–12.5 Mcycles"


def test_a_range_prints_its_unit_once_and_a_narrow_one_as_one_number() -> None:
    assert units.scaled_range(0.9e-3, 1.31e-3, units.TIME) == "0.900–1.31 ms"
    assert units.scaled_range(1.2301e-3, 1.2302e-3, units.TIME) == "1.23 ms"
    assert units.scaled_range(100, 200, units.MEMORY) == "100–200 B"


def test_the_ending_of_a_facts_name_gives_its_unit() -> None:
    assert units.fact("memory_available_bytes.median", 2**33) == "8.00 GiB"
    assert units.fact("sm_clock_hz.max", 1.98e9) == "1.98 GHz"
    assert units.fact("throttle_share.sw_power_cap", 0.25) == "25 %"
    assert units.fact("seq_len", 4096) == "4096"
    assert units.fact("causal", True) == "yes"
    assert units.fact("anything", None) == "not known"


def test_nested_conditions_become_sorted_flat_facts() -> None:
    data = {"b": {"z": 1, "a": [1, 2]}, "a": [{"name": "x"}], "e": []}
    assert units.flatten(data) == [("a.0.name", "x"), ("b.a", "1, 2"), ("b.z", 1), ("e", "none")]


def test_a_share_is_percent_a_multiple_from_ten_on_and_an_exponent_where_percent_would_be_noughts() -> None:
    assert units.in_unit(0.0917, "ratio") == "9.17 %"
    assert units.in_unit(78.37, "ratio") == "78.4×"
    assert units.in_unit(1.04e-7, "ratio") == "1.0e-07"
    assert units.range_in_unit(0.0017, 0.0018, "ratio") == "0.170–0.180 %"
    assert units.range_in_unit(1e-7, 0.0018, "ratio") == "1.00e-05–0.180 %"
    assert units.range_in_unit(0.5, 78.37, "ratio") == "0.500–78.4×"
