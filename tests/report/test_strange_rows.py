"""Rows that only an import can bring, and cases of which no row counts: the report says what they are and stays whole."""

from __future__ import annotations

import csv
import io
import json

import pytest

from bench.cli.tables import answers, case_table, status_line, trials_with_row
from bench.records import Result, Run, RunState, Status
from bench.report import render_markdown, render_page, rows_csv, rows_json
from bench.report.numbers.summary import summarize
from bench.report.numbers.units import fact
from bench.report.recompute.verify import verify_page
from bench.report.trust.doubts import doubts
from tests import factories

NOW = "2026-01-02T04:00:00+00:00"
SIZES = (128, 256, 512)


def _three_sizes(run: Run, subject: str = "eager", **changes: object) -> list[Result]:
    return [factories.result(run.id, factories.case(subject, seq_len=size), **changes) for size in SIZES]  # type: ignore[arg-type]


@pytest.mark.parametrize("time_s", [5e-324, 1.7e308])
def test_a_time_that_fits_on_no_axis_costs_a_chart_and_not_the_page(time_s: float) -> None:
    run = factories.run(planned_trials=6)
    strange = factories.result(
        run.id, factories.case("flex", seq_len=512), measurements=(factories.measurement("time_s", (time_s,)),)
    )
    for rows in ([*_three_sizes(run), strange], [*_three_sizes(run)[:1], strange]):
        page = render_page([run], rows, now=NOW)
        assert "no chart: values from" in page
        assert "eager" in page
        json.dumps(rows_json([run], rows), allow_nan=False)
        rows_csv([run], rows)
        render_markdown([run], rows)


def test_a_condition_that_is_no_float_is_told_by_its_size() -> None:
    run = factories.run()
    row = factories.result(run.id, conditions={"x_bytes": 10**400, "discarded_trials": 10**400, "n": -(10**350)})
    assert "about 1e400" in render_page([run], [row], now=NOW)
    assert fact("n", -(10**350)) == "about -1e350"
    assert fact("x_bytes", float("inf")) == "inf"


def test_a_parameter_that_is_no_float_does_not_stop_the_report() -> None:
    run = factories.run()
    rows = [factories.result(run.id, factories.case(seq_len=size)) for size in (128, 10**400)]
    assert "eager" in render_page([run], rows, now=NOW)
    assert "eager" in case_table(run, rows)


def test_a_case_of_which_no_row_counts_is_set_aside_everywhere() -> None:
    run = factories.run(planned_trials=6)
    rows = _three_sizes(run) + _three_sizes(run, "flex", excluded_reason="a neighbour was busy")
    flex = [summary for summary in summarize(run, rows) if summary.label == "flex"]
    assert [(summary.outcome, summary.reason) for summary in flex] == [("set aside", "excluded: a neighbour was busy")] * 3
    assert [line.split()[2:4] for line in case_table(run, rows).splitlines() if "flex" in line] == [["set", "aside"]] * 3
    assert status_line(rows) == "3 ok, 3 set aside"
    assert render_markdown([run], rows).count("| set aside: excluded: a neighbour was busy |") == 3
    cases = rows_json([run], rows)["cases"]
    assert [case["status"] for case in cases if case["subject"] == {"attention": "flex"}] == ["set aside"] * 3
    lines = list(csv.DictReader(io.StringIO(rows_csv([run], rows))))
    assert [line["status"] for line in lines if line["subject.attention"] == "flex"] == ["set aside"] * 3
    page = render_page([run], rows, now=NOW)
    assert page.count('<span class="chip st-set-aside">set aside</span>') == 3 + 1
    assert page.count('<td class="word st-set-aside">') == 3
    assert not [line for line in answers(run, rows) if "flex" in line]


@pytest.mark.parametrize("subject", ["eager", "flex"])
def test_a_time_of_nothing_is_no_divisor(subject: str) -> None:
    run = factories.run(suite_data={"baseline": {"attention": "eager"}})
    rows = [
        factories.result(run.id, factories.case(name), index=index, measurements=(factories.measurement("time_s", (time_s,)),))
        for name in ("eager", "flex")
        for index, time_s in enumerate((0.0, 0.0, 0.0) if name == subject else (1.0, 1.01, 1.02))
    ]
    page = render_page([run], rows, now=NOW)
    # Nobody is shown to be faster than a baseline of nothing; a rival of nothing has no ratio that could be judged.
    assert ("takes longer than no time at all" in page) is (subject == "eager")
    assert verify_page(page).agrees
    render_markdown([run], rows)


def test_rows_that_are_excluded_are_not_missing_and_a_trial_measured_anew_counts_once() -> None:
    run = factories.run(planned_trials=2, state=RunState.FINISHED)
    first, second = (factories.result(run.id, index=index) for index in (0, 1))
    moved = factories.result(run.id, index=0, excluded_reason="begun on another device")
    again = factories.result(run.id, trial=_attempt(first, 1))
    last = factories.result(run.id, trial=_attempt(second, 1))
    rows = [moved, again, last]
    assert not [doubt for doubt in doubts(run, summarize(run, rows)) if "planned trials" in doubt.text]
    assert trials_with_row([row.trial.key for row in rows]) == 2
    assert [d.count for d in doubts(run, summarize(run, [moved, again])) if "planned trials have no row" in d.text] == [1]


def _attempt(row: Result, attempt: int) -> object:
    import dataclasses

    return dataclasses.replace(row.trial, attempt=attempt)


def test_markdown_and_csv_hold_nothing_that_steers_a_terminal() -> None:
    run = factories.run(question="why\x1b[2J\u202e?", started_at="now\x9b")
    rows = [factories.result(run.id, status=Status.FAILED, reason="bad\x1b]0;title\x07\u200b", command="bench\x9b1m run")]
    for text in (render_markdown([run], rows), rows_csv([run], rows)):
        assert all(char == "\n" or char.isprintable() for char in text)
        assert "\\x1b" in text
