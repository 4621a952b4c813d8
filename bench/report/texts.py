"""The same rows for a terminal, a pull request, a spreadsheet or a program: Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from bench.records import Json, Result, Run, Status
from bench.report import units
from bench.report.answers import QUESTIONS, doubts, readings, value_words
from bench.report.figures import status_word
from bench.report.layout import Section, sections
from bench.report.summary import PEAK, SAVED, TIME, CaseSummary, Spread, summarize

ROWS_SCHEMA = 1


def _cell_text(text: str) -> str:
    """Text that can neither end a table cell nor become markup."""
    flat = " ".join(text.split())
    for character in "\\`*_[]<>|#~":
        flat = flat.replace(character, "\\" + character)
    return flat.replace("&", "&amp;")


def _table(section: Section) -> list[str]:
    names = [*section.axes, "subject", "status", "n", "time per call", "peak memory", "kept for backward"]
    lines = ["| " + " | ".join(_cell_text(name) for name in names) + " |", "|" + " --- |" * len(names)]
    for summary in section.in_order():
        ok = summary.status is Status.OK
        numbers = [
            value_words(summary.values[metric], metric) if ok and metric in summary.values else "–"
            for metric in (TIME, PEAK, SAVED)
        ]
        status = status_word(summary.status) + (f": {summary.reason[:120]}" if summary.reason else "")
        axes = ["–" if (value := summary.axis(axis)) is None else str(value) for axis in section.axes]
        cells = [*axes, summary.label, status, str(summary.counts.get(summary.status, 0)), *numbers]
        lines.append("| " + " | ".join(_cell_text(cell) for cell in cells) + " |")
    return lines


def render_markdown(runs: Sequence[Run], results: Sequence[Result]) -> str:
    """Question, readings, doubts and a table for each run. Times are medians over trials with their range."""
    lines: list[str] = []
    for run in runs:
        cases = summarize(run, results)
        lines += [f"## {_cell_text(run.question or run.suite)}", ""]
        lines += [f"Suite {_cell_text(run.suite)}, run {_cell_text(run.id)}, {run.started_at}, {_cell_text(run.device)}.", ""]
        for section in sections(run, cases):
            for metric, words in QUESTIONS:
                for reading in readings(section, metric):
                    doubt = f" ({reading.doubt})" if reading.doubt else ""
                    lines.append(_cell_text(f"{words}, {reading.where}: {reading.subject}, {reading.detail}{doubt}."))
                    lines[-1] = "- " + lines[-1]
            lines += ["", *_table(section), ""]
        lines += [f"- Doubtful: {_cell_text(f'{doubt.count} {doubt.text}')}." for doubt in doubts(run, cases)]
        lines.append("")
    lines.append(
        "Lower is better. A value is the median over trials of each trial's median sample; brackets hold the range over trials."
    )
    return "\n".join(lines) + "\n"


def _ordered(runs: Sequence[Run], results: Sequence[Result]) -> list[CaseSummary]:
    return [summary for run in runs for section in sections(run, summarize(run, results)) for summary in section.in_order()]


def _spread_data(value: Spread | None) -> Json:
    return None if value is None else {"median": value.median, "low": value.low, "high": value.high, "trials": value.n}


def _case_data(summary: CaseSummary) -> dict[str, Json]:
    case = summary.case
    return {
        "run": summary.run_id,
        "case_key": case.key,
        **case.point_data(),
        "subject": dict(case.subject),
        "arm": summary.arm,
        "status": str(summary.status),
        "reason": summary.reason,
        "trials": {str(status): n for status, n in summary.counts.items()},
        "metrics": {metric: _spread_data(value) for metric, value in summary.values.items()},
        "proof": summary.proof.verdict if summary.proof else None,
        "time_withheld": summary.time_withheld,
        "command": next((result.command for result in summary.counted), None),
    }


def rows_json(runs: Sequence[Run], results: Sequence[Result]) -> Json:
    """JSON-ready data: one object for each case. Seconds and bytes; `low` and `high` are the range over trial medians."""
    return {
        "schema": ROWS_SCHEMA,
        "units": {metric: units.metric_unit(metric) for metric in (TIME, PEAK, SAVED)},
        "cases": [_case_data(summary) for summary in _ordered(runs, results)],
    }


def _safe(value: object) -> object:
    # A spreadsheet runs a cell that begins like a formula.
    return "'" + value if isinstance(value, str) and value[:1] in "=+-@\t\r" and value != "-" else value


def rows_csv(runs: Sequence[Run], results: Sequence[Result]) -> str:
    """CSV with one line for each case, every parameter a column, units in the names of columns."""
    cases = _ordered(runs, results)
    slots = sorted({slot for summary in cases for slot in summary.case.subject})
    params = sorted({name for summary in cases for name in summary.case.params})
    metrics = (TIME, PEAK, SAVED)
    fixed = ("pass", "dtype", "device", "cache", "timer", "world_size")
    head = ["run", "workload", *(f"subject.{slot}" for slot in slots), *fixed, *(f"param.{name}" for name in params), "arm", "status",
            "reason", *(f"{m}.{part}" for m in metrics for part in ("median", "low", "high", "trials")), "command"]  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for summary in cases:
        case = summary.case
        numbers: list[object] = []
        for metric in metrics:
            value: Mapping[str, object] = _spread_data(summary.values.get(metric)) or {}
            numbers += [value.get(part) for part in ("median", "low", "high", "trials")]
        command = next((result.command for result in summary.counted), None)
        line = [summary.run_id, case.workload, *(case.subject.get(slot) for slot in slots),
                *(summary.axis(axis) for axis in fixed), *(case.params.get(name) for name in params), summary.arm, str(summary.status),
                summary.reason, *numbers, command]  # fmt: skip
        writer.writerow([_safe(cell) for cell in line])
    return out.getvalue()
