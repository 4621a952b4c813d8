"""Markdown, CSV and JSON of the same rows."""

from __future__ import annotations

import csv
import io
import json

from bench.report import render_markdown, rows_csv, rows_json
from tests import factories
from tests.report.gpu_sample import gpu_run
from tests.report.hostile import SCRIPT, hostile
from tests.report.sample import everything


def test_markdown_has_a_line_for_each_case_with_value_range_and_n() -> None:
    runs, results = everything(trials=2)
    text = render_markdown(runs, results)
    assert text.startswith("## Which attention kernel")
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 108 + 2
    assert "n 2)" in text
    assert "OOM: MemoryError" in text


def test_markdown_that_would_be_too_long_loses_lines_of_tables_and_says_how_many() -> None:
    runs, results = everything(trials=1)
    whole = render_markdown(runs, results)
    short = render_markdown(runs, results, limit_bytes=len(whole.encode()) - 5000)
    assert len(short.encode()) <= len(whole.encode()) - 5000
    left = len(whole.splitlines()) - len(short.splitlines()) + 2
    assert f"{left} lines of tables are left out" in short
    assert short.splitlines()[:20] == whole.splitlines()[:20]


def test_markdown_from_hostile_names_has_no_markup_and_no_broken_table() -> None:
    text = render_markdown(*hostile())
    assert SCRIPT not in text
    rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert "![x]" not in text


def test_csv_has_units_in_its_columns_and_empty_cells_for_what_was_not_measured() -> None:
    runs, results = everything(trials=2)
    lines = list(csv.DictReader(io.StringIO(rows_csv(runs, results))))
    assert len(lines) == 108
    for line in lines:
        assert (line["time_s.median"] != "") == (line["status"] == "ok")
    assert [line["param.seq_len"] for line in lines[:36:6]] == ["128", "256", "512", "1024", "2048", "4096"]


def test_csv_tells_the_unit_where_the_name_of_the_metric_does_not() -> None:
    run, results = gpu_run(trials=1, sizes=(1024,))
    heads = next(csv.reader(io.StringIO(rows_csv([run], results))))
    assert "cycles.median [cycle]" in heads
    assert not [head for head in heads if head.startswith(("time_s", "peak_bytes")) and "[" in head]


def test_csv_cells_cannot_be_formulas() -> None:
    run = factories.run(id="run-1")
    text = rows_csv([run], [factories.result("run-1", command="=HYPERLINK(1)")])
    assert next(csv.DictReader(io.StringIO(text)))["command"] == "'=HYPERLINK(1)"


def test_json_is_json_with_seconds_bytes_and_the_range() -> None:
    data = json.loads(json.dumps(rows_json(*everything(trials=2)), allow_nan=False))
    assert data["schema"] == 2
    assert data["units"] == {"time_s": "s", "peak_bytes": "byte", "saved_bytes": "byte"}
    ok = next(case for case in data["cases"] if case["status"] == "ok")
    assert ok["metrics"]["time_s"]["low"] <= ok["metrics"]["time_s"]["median"] <= ok["metrics"]["time_s"]["high"]
