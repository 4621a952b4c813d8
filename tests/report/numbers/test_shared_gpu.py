"""Rows whose GPU others computed on: no time, memory as counted, and nothing called the fastest beside a time that is not shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.lang.messages import language
from bench.records import Json, Measurement
from bench.report import render_page
from bench.report.numbers.layout import sections
from bench.report.numbers.summary import gather, summarize
from bench.report.recompute.verify import verify_page
from bench.report.trust.doubts import doubts
from bench.report.views.scaling import scaling_table
from tests import factories
from tests.report.views.sharding_sample import shared_run

BESIDE = {"other_compute_processes": ["python3", "python3"], "busy_processes": [{"name": "python3", "cores": 0.7}]}
IDLE: dict[str, Json] = {"other_compute_processes": ["jupyter"], "busy_processes": [{"name": "backup", "cores": 0.7}]}


def test_an_idle_neighbour_takes_no_time_away_and_is_told() -> None:
    run, rows = shared_run(ranks=(2,))
    cases = summarize(run, [replace(row, conditions={**row.conditions, **IDLE}) for row in rows])
    assert all("time_s" in case.values for case in cases)
    assert any("shared their GPU" in doubt.text for doubt in doubts(run, cases))


def test_a_busy_neighbour_takes_the_times_and_leaves_the_memory() -> None:
    run, rows = shared_run(ranks=(2,))
    whole = summarize(run, rows)
    cases = summarize(run, [replace(row, conditions={**row.conditions, **BESIDE}) for row in rows])
    assert {case.time_withheld for case in cases} == {"no time is shown: other processes computed on its GPU in 3 of 3 trials"}
    assert not any("time_s" in case.values for case in cases)
    assert [case.values["peak_total_bytes"] for case in cases] == [case.values["peak_total_bytes"] for case in whole]


def test_beside_lines_without_a_time_the_page_says_why_and_in_chinese_too() -> None:
    run, rows = shared_run(ranks=(2,))
    rows = [replace(row, conditions={**row.conditions, **BESIDE}) for row in rows]
    cases = summarize(run, rows)
    said = (
        f"Of {len(cases)} of {len(cases)} cases no time is shown: other processes computed on its GPU in 3 of 3 trials;"
        " memory is counted, and holds."
    )
    table = scaling_table(sections(run, cases)[0], {})
    assert table is not None
    assert said in table.words
    assert language("zh-TW").said(said) != said
    page = render_page([run], rows, now="2026-01-01T00:00:00Z")
    panel = page[page.index('<details class="facet"') :]
    assert said in panel
    assert verify_page(page).agrees
    quiet = scaling_table(sections(run, summarize(run, shared_run(ranks=(2,))[1]))[0], {})
    assert quiet is not None
    assert not any("no time is shown" in words for words in quiet.words)


def test_energy_is_withheld_with_the_time_and_what_an_older_page_tells_of_it_stays() -> None:
    run = factories.run()
    row = factories.result(run.id, conditions=BESIDE)
    row = replace(row, measurements=(*row.measurements, Measurement("energy_j", "J", (267.0,))))
    for told in (False, True):
        (case,) = gather(run, [row], told=told)[0]
        assert ("energy_j" in case.values, "time_s" in case.values) == (told, False)


def test_one_trial_of_three_beside_a_busy_neighbour_is_in_no_time_and_its_memory_is_shown() -> None:
    run, rows = shared_run(ranks=(2,))
    cases = summarize(run, [replace(row, conditions={**row.conditions, **BESIDE}) if row.trial.index == 0 else row for row in rows])
    assert {(case.time_withheld, case.values["time_s"].n, case.values["peak_total_bytes"].n) for case in cases} == {(None, 2, 3)}
    (doubt,) = [doubt for doubt in doubts(run, cases) if "are in no time" in doubt.text]
    assert (doubt.count, doubt.text) == (len(cases), f"of {len(rows)} trials are in no time: other processes computed on their GPU")


def test_the_fastest_is_not_named_beside_one_whose_time_is_withheld() -> None:
    run, rows = shared_run(ranks=(2,))
    slow = rows[0].case.key
    touched = [replace(row, conditions={**row.conditions, **BESIDE}) if row.case.key == slow else row for row in rows]
    named, not_named = (
        scaling_table(sections(run, summarize(run, found))[0], {}) for found in (rows, touched)
    )  # fmt: skip
    assert named is not None
    assert not_named is not None
    assert any("trains the most" in words for words in named.words)
    assert not any("trains the most" in words for words in not_named.words)
    assert not any(cell.note == "the fastest" for line in not_named.lines for cell in line)


@pytest.mark.parametrize(("bytes_", "conditions", "shown"), [(2.0**20, {}, True), (-(2.0**32), {}, False), (2.0**20, IDLE, False)])
def test_the_growth_of_a_device_is_told_where_it_is_the_rows_own(
    bytes_: float, conditions: dict[str, Json], *, shown: bool
) -> None:
    run = factories.run()
    row = factories.result(run.id, conditions=conditions)
    row = replace(row, measurements=(*row.measurements, Measurement("device_used_bytes", "byte", (bytes_,))))
    (case,) = summarize(run, [row])
    assert ("device_used_bytes" in case.values) is shown
