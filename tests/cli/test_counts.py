"""Numbers as options take them are refused in plain words."""

from __future__ import annotations

import click
import pytest

from bench.cli.counts import Number, Whole


@pytest.mark.parametrize(("text", "meant"), [("4k", "4096 or 4000"), ("16K", "16384 or 16000")])
def test_thousands_in_short_are_refused_with_both_numbers_that_they_may_be(text: str, meant: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a whole number: write {meant}"):
        Whole(1).convert(text, None, None)


@pytest.mark.parametrize("text", ["four", "4.5", "", "4 k"])
def test_what_is_no_whole_number_is_called_so(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a valid whole number"):
        Whole(1).convert(text, None, None)


def test_numbers_are_taken_within_their_bounds() -> None:
    assert Whole(1).convert("4096", None, None) == 4096
    assert Whole(0).convert(7, None, None) == 7
    assert Number(0, 1).convert("0.5", None, None) == 0.5
    with pytest.raises(click.BadParameter, match="is not in the range"):
        Whole(1).convert("0", None, None)
    with pytest.raises(click.BadParameter, match="is not a valid number"):
        Number(0, 1).convert("half", None, None)
