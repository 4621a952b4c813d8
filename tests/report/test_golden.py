"""What the page says of fixed rows is what the golden files hold."""

from __future__ import annotations

import pytest

from tests.report.golden_text import FOLDER, GOLDEN, page_text


@pytest.mark.parametrize("name", GOLDEN)
def test_the_page_says_what_its_golden_file_holds(name: str) -> None:
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert page_text(name) == expected, "if this is meant: python -m tests.report.golden_text, and look at the difference"
