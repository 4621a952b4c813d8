"""GB is 1e9, GiB is 2**30, a bare number is GB."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.suite import parse_size, spell_size


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [
        ("80GB", 80 * 10**9),
        ("141GiB", 141 * 2**30),
        ("141 gib", 141 * 2**30),
        (2, 2 * 10**9),
        (0.5, 500_000_000),
        ("1.5GiB", 3 * 2**29),
        ("512 MiB", 2**29),
        ("100 B", 100),
        ("7kB", 7000),
        ("1TB", 10**12),
        ("0.1GB", 100_000_000),
    ],
)
def test_a_size_is_so_many_bytes(size: str | float, size_bytes: int) -> None:
    assert parse_size(size) == size_bytes


@pytest.mark.parametrize(
    "size", ["", "GB", "-1GB", "3 apples", "0", 0, True, "1e3GB", "1 G B", "٣GB", "9" * 40, float("1e300"), -2, "nan"]
)
def test_anything_else_is_no_size(size: str | float) -> None:
    with pytest.raises(ValueError, match=r"size|memory"):
        parse_size(size)


@given(st.integers(1, 10**6), st.sampled_from(["MB", "MiB", "GB", "GiB"]))
def test_whole_sizes_are_exact(number: int, unit: str) -> None:
    scale = {"MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}[unit]
    assert parse_size(f"{number}{unit}") == number * scale


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(24 * 10**9, "24GB"), (2**34, "16GiB"), (1_500_000_000, "1500MB"), (2 * 10**12, "2TB"), (7, "7B")]
)
def test_a_size_is_spelled_in_the_largest_unit_that_divides_it(size_bytes: int, text: str) -> None:
    assert spell_size(size_bytes) == text


@given(st.integers(1, 10**15 - 1))
def test_a_spelled_size_is_read_as_the_same_bytes(size_bytes: int) -> None:
    assert parse_size(spell_size(size_bytes)) == size_bytes
