"""A page stays light: sizes that a mail, a browser and a repository can carry."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bench.records import Result, Run
from bench.report import render_page
from bench.report.outputs.folded import folded
from tests.report.sample import everything

NOW = "2026-01-02T04:00:00+00:00"


def _many(copies: int, trials: int) -> tuple[list[Run], list[Result]]:
    """108 cases a copy, with all statuses."""
    runs, rows = everything(trials=trials)
    made = []
    for number in range(copies):
        for row in rows:
            case = dataclasses.replace(row.case, params={**row.case.params, "window": number})
            made.append(dataclasses.replace(row, id=f"{row.id}-{number}", trial=dataclasses.replace(row.trial, case=case)))
    return runs, made


def test_five_hundred_rows_stay_well_below_two_and_a_half_megabytes() -> None:
    page = render_page(*_many(5, 3), now=NOW)
    assert page.count('<tbody id="r-') == 540
    assert len(page.encode()) <= 2.2e6


def test_a_light_page_of_a_hundred_rows_of_three_trials_stays_below_two_hundred_kilobytes_and_half_of_it_packed() -> None:
    page = render_page(*_many(1, 3), now=NOW, light=True)
    assert page.count('<tbody id="r-') == 108
    assert len(page.encode()) <= 2e5
    assert len(folded(page).encode()) <= 1e5


@pytest.mark.slow
def test_five_thousand_rows_stay_below_six_megabytes() -> None:
    page = render_page(*_many(46, 1), now=NOW)
    assert page.count('<tbody id="r-') == 4968
    assert len(page.encode()) <= 5e6
    # How soon a browser is ready hangs on how much there is to parse.
    assert len(re.findall("<[a-z]", page)) <= 40 * 4968
