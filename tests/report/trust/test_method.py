"""A page says by which versions of the measuring method its own rows were measured, and not which one would measure today."""

from __future__ import annotations

import re

import pytest

from bench.lang import language
from bench.lang.pages import page_in, page_in_english
from bench.records import METHOD_VERSION, NO_METHOD_OF_OURS
from bench.report import render_page
from bench.report.recompute.verify import verify_page
from tests import factories

NOW = "2026-01-02T04:00:00+00:00"
_FOOTER = re.compile(r"<footer class=\"?page\"?><p>stepbench [\d.]+(.*?), rendered ", re.S)


def page_of(*methods: int) -> str:
    """One trial by each of these methods."""
    rows = [factories.result(index=index, method_version=method) for index, method in enumerate(methods)]
    return render_page([factories.run(id="run-1")], rows, now=NOW)


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ((1, 1), ", measuring method 1"),
        ((METHOD_VERSION,), f", measuring method {METHOD_VERSION}"),
        ((2, 1), ", measuring methods 1 and 2"),
        ((NO_METHOD_OF_OURS,), ""),
        ((), ""),
    ],
)
def test_a_page_says_the_methods_of_its_rows_in_every_language(methods: tuple[int, ...], said: str) -> None:
    page = page_of(*methods)
    assert _FOOTER.findall(page) == [said]
    if methods:
        assert verify_page(page).agrees
    turned = page_in(page, language("zh-TW"))
    assert "各試驗的中位數以" in turned
    assert _FOOTER.findall(page_in_english(turned, language("zh-TW"))) == [said]


def test_a_page_that_says_another_method_than_its_rows_is_found() -> None:
    page = page_of(1)
    (found,) = verify_page(page.replace("measuring method 1", "measuring method 2")).differences
    assert ("method 2" in found.printed, "method 1" in found.computed) == (True, True)
