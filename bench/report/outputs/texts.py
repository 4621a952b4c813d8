"""The same rows for a terminal, a pull request, a spreadsheet or a program: Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from bench import __version__
from bench.judge.rates import Rate
from bench.plaintext import plain
from bench.records import Json, Result, Run, dump
from bench.report.answers.readings import OTHER_NUMBERS, questions, readings, value_words
from bench.report.drawing.figures import TITLES, case_word
from bench.report.numbers import units
from bench.report.numbers.findings import FINDINGS, found_in, other_numbers, title, value_text
from bench.report.numbers.hardware_work import hardware_utilisation
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.memory import is_training_step
from bench.report.numbers.rates import growth_words, rate_words, reach_words, utilisation
from bench.report.numbers.summary import CYCLES, PEAK, PHASES, SAVED, TIME, TOTAL, CaseSummary, Reach, Spread, gather
from bench.report.trust.doubts import doubts
from bench.report.views.beside import peaks_by_cause
from bench.report.views.energy import energy_data, energy_words
from bench.report.views.pareto import front_of, front_words
from bench.report.views.told_apart import in_shown_order, suite_words

ROWS_SCHEMA = 2
"""2: the runs are told once, and each case has the median of each of its trials."""
MARKDOWN_BYTES = 1_000_000
"""What GitHub takes as the summary of a step is 1 MiB."""


def _cell_text(text: str) -> str:
    """Text that can neither end a table cell, nor become markup, nor steer a terminal."""
    flat = plain(" ".join(text.split()))
    for character in "\\`*_[]<>|#~":
        flat = flat.replace(character, "\\" + character)
    return flat.replace("&", "&amp;")


def _rate_text(summary: CaseSummary) -> str:
    utilised = utilisation(summary)
    if is_training_step(summary) and summary.rates.tokens:
        more = hardware_utilisation(summary)
        shares = (
            f" (MFU {units.percent(utilised.share)}{f', HFU {units.percent(more.share)}' if more and more.formula else ''})"
            if utilised
            else ""
        )
        return rate_words(summary.rates.tokens) + shares
    rate = summary.rates.leading
    if rate is None:
        return "–"
    return rate_words(rate) + (f" ({units.percent(rate.measured.value)})" if rate.measured else "")


def _reached(reach: Reach) -> list[str]:
    """One line for each canary: what the machine reaches."""
    return [f"- {_cell_text(f'This machine reaches: {line}')}." for line in reach_words(reach)]


def table_cells(section: Section) -> tuple[list[str], list[list[str]]]:
    """Heads, and a line for each case: what it is, how it ended, its numbers with ranges and n."""
    found = found_in(section.cases)
    heads = [
        *section.axes,
        "subject",
        "status",
        "n",
        "time per call",
        "rate (MFU)" if any(map(is_training_step, section.cases)) else "rate (share of the measured ceiling)",
        TITLES[section.memory],
        "kept for backward",
        *map(title, found),
    ]
    others = {id(facet.cells[label, x]) for facet in section.facets for label in other_numbers(facet) for x in facet.xs
              if (label, x) in facet.cells}  # fmt: skip
    lines = []
    for summary in section.in_order():
        ok = summary.usable
        numbers = [
            value_words(summary.values[metric], metric) if ok and metric in summary.values else "–"
            for metric in (TIME, section.memory, SAVED)
        ]
        numbers.insert(1, _rate_text(summary))
        status = case_word(summary) + (f": {summary.reason[:120]}" if summary.reason else "")
        axes = ["–" if (value := summary.axis(axis)) is None else str(value) for axis in section.axes]
        beside = [value_text(summary.values[name], name) if ok and name in summary.values else "–" for name in found]
        label = f"{summary.label} ({OTHER_NUMBERS})" if id(summary) in others else summary.label
        lines.append([*axes, label, status, str(summary.counts.get(summary.status, 0)), *numbers, *beside])
    return heads, lines


def sentences(section: Section) -> list[str]:
    """What the page begins with: the readings of a section in order."""
    return [
        f"{words}, {reading.where}: {reading.text}."
        for metric, words in questions(section)
        for reading in readings(section, metric)
    ]


def _table(section: Section) -> list[str]:
    heads, rows = table_cells(section)
    lines = ["| " + " | ".join(_cell_text(name) for name in heads) + " |", "|" + " --- |" * len(heads)]
    return lines + ["| " + " | ".join(_cell_text(cell) for cell in cells) + " |" for cells in rows]


def _fronts(section: Section) -> list[str]:
    """Who is beaten by nobody in time and memory, for each panel with enough subjects."""
    return [
        f"{facet.title + ': ' if facet.title else ''}{front_words(front, facet, section.swept)}"
        for facet in section.facets
        if (front := front_of(facet)) is not None
    ]


def _causes(section: Section) -> list[str]:
    """What the peak of each subject consists of: a table for each panel whose peaks were explained."""
    lines: list[str] = []
    for facet in section.facets:
        found = peaks_by_cause(facet, section.swept)
        if found is None:
            continue
        heads = [head for head, _ in found.numbers.heads]
        lines += ["", _cell_text(f"{facet.title + ': ' if facet.title else ''}{found.title}, all that is resident included."), ""]
        for cells in (heads, ["---"] * len(heads), *found.numbers.lines):
            lines.append("| " + " | ".join(cell if cells[0] == "---" else _cell_text(cell) for cell in cells) + " |")
    return lines


def render_markdown(runs: Sequence[Run], results: Sequence[Result], *, limit_bytes: int = MARKDOWN_BYTES) -> str:
    """Question, readings, doubts and a table for each run. Times are medians over trials with their range.

    Lines of tables beyond `limit_bytes` are left out, and counted in words: a forge cuts off or refuses a longer summary of a step.
    """
    lines: list[str] = []
    gathered = {run.id: gather(run, results) for run in runs}
    for run in in_shown_order(runs, {ident: cases for ident, (cases, _) in gathered.items()}):
        cases, reach = gathered[run.id]
        lines += [f"## {_cell_text(run.question or run.suite)}", ""]
        lines += [
            f"{_cell_text(suite_words(run))}, run {_cell_text(run.id)}, {_cell_text(run.started_at)}, {_cell_text(run.device)}.",
            "",
        ]
        for section in sections(run, cases):
            lines += [f"- {_cell_text(text)}" for text in sentences(section)]
            lines += [f"- Grows: {_cell_text(line)}." for line in growth_words(section)]
            lines += [f"- {_cell_text(line)}" for line in _fronts(section)]
            lines += [f"- Energy: {_cell_text(line)}" for line in energy_words(section)]
            lines += ["", *_table(section), *_causes(section), ""]
        lines += _reached(reach)
        lines += [f"- Doubtful: {_cell_text(f'{doubt.count} {doubt.text}')}." for doubt in doubts(run, cases, reach)]
        lines.append("")
    lines.append(
        "Lower is better. A value is the median over trials of each trial's median sample; brackets hold the range over trials."
    )
    return "\n".join(_within(lines, limit_bytes)) + "\n"


def _within(lines: Sequence[str], limit_bytes: int) -> list[str]:
    """The lines, less the last lines of tables where all together are longer than allowed."""
    sizes = [len(line.encode("utf-8", "backslashreplace")) + 1 for line in lines]
    surplus = sum(sizes) - limit_bytes
    if surplus <= 0:
        return list(lines)
    rows = [place for place in range(2, len(lines)) if lines[place].startswith("| ") and lines[place - 1].startswith("|")]
    left_out: set[int] = set()
    note = "{} lines of tables are left out: the summary may not be longer. `bench report` has all."
    surplus += len(note) + 10
    while rows and surplus > 0:
        surplus -= sizes[rows[-1]]
        left_out.add(rows.pop())
    kept = [line for place, line in enumerate(lines) if place not in left_out]
    return [*kept, "", note.format(len(left_out))]


def _ordered(runs: Sequence[Run], results: Sequence[Result]) -> tuple[list[CaseSummary], list[CaseSummary]]:
    """The cases of the runs' questions, and their canaries."""
    gathered = [(run, *gather(run, results)) for run in runs]
    cases = [summary for run, own, _ in gathered for section in sections(run, own) for summary in section.in_order()]
    return cases, [summary for _, _, reach in gathered for summary in reach.canaries]


def _spread_data(value: Spread | None) -> Json:
    return None if value is None else {"median": value.median, "low": value.low, "high": value.high, "trials": value.n}


def _rate_data(rate: Rate | None) -> Json:
    if rate is None or not math.isfinite(rate.per_s):
        return None  # work over a time that only an imported row can hold
    shares = {
        name: {"value": share.value, "of_per_s": share.ceiling.per_s, "source": share.ceiling.source}
        for name, share in (("measured", rate.measured), ("data_sheet", rate.data_sheet))
        if share and math.isfinite(share.value)
    }
    return {"per_s": rate.per_s, "shares": shares}


def _trial_data(summary: CaseSummary) -> list[Json]:
    return [
        {
            "result": result.id,
            "index": result.trial.index,
            "attempt": result.trial.attempt,
            "status": str(result.status),
            "medians": {name: value for name, value in summary.trial_values.get(result.id, {}).items() if math.isfinite(value)},
        }
        for result in summary.counted
    ]


def _case_data(summary: CaseSummary) -> dict[str, Json]:
    case = summary.case
    return {
        "run": summary.run_id,
        "case_key": case.key,
        **case.point_data(),
        "subject": dict(case.subject),
        "label": summary.label,
        "arm": summary.arm,
        "status": summary.outcome,
        "reason": summary.reason,
        "trials": {str(status): n for status, n in summary.counts.items()},
        "metrics": {metric: _spread_data(value) for metric, value in summary.values.items()},
        "trial_medians": _trial_data(summary),
        "rates": {
            "flops": _rate_data(summary.rates.flops),
            "bytes": _rate_data(summary.rates.bytes),
            "tokens": _rate_data(summary.rates.tokens),
        },
        "mfu": utilised.share if (utilised := utilisation(summary)) else None,
        "hfu": more.share if (more := hardware_utilisation(summary)) else None,
        "declares_tolerance": summary.declares_tolerance,
        "proof": summary.proof.verdict if summary.proof else None,
        "time_withheld": summary.time_withheld,
        "command": next((result.command for result in summary.counted), None),
    }


def _run_data(run: Run) -> dict[str, Json]:
    return {
        "id": run.id,
        "suite": run.suite,
        "label": run.label,
        "question": run.question,
        "device": run.device,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "state": str(run.state),
        "planned_trials": run.planned_trials,
        "under_test": [dump(item) for item in run.revision],
        "harness_version": run.harness_version,
        "command": run.command,
    }


def rows_json(runs: Sequence[Run], results: Sequence[Result]) -> Json:
    """JSON-ready data: the runs, one object for each case with the medians of its trials, and apart from them for each canary.

    Seconds, bytes and joules; `units` says which of a metric, and `low` and `high` are the range over trial medians. `energy` is who
    takes the least and the most at each point.
    """
    cases, canaries = _ordered(runs, results)
    return {
        "schema": ROWS_SCHEMA,
        "written_by": f"stepbench {__version__}",
        "units": {metric: units.metric_unit(metric) for metric in _metrics(cases + canaries)},
        "runs": [_run_data(run) for run in runs],
        "cases": [_case_data(summary) for summary in cases],
        "canaries": [_case_data(summary) for summary in canaries],
        "energy": [line for run in runs for section in sections(run, gather(run, results)[0]) for line in energy_data(section)],
    }


def _metrics(cases: Sequence[CaseSummary]) -> tuple[str, ...]:
    """Time and memory, and of the rest what at least one case has."""
    there = {name for case in cases for name in case.values}
    return (TIME, PEAK, SAVED, *(name for name in (TOTAL, CYCLES, *FINDINGS, *PHASES) if name in there))


def _safe(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = plain(value, lines=True)
    # A spreadsheet runs a cell that begins like a formula.
    return "'" + text if value[:1] in ("=", "+", "-", "@", "\t", "\r") and value != "-" else text


def _head(metric: str, part: str) -> str:
    """`time_s.median`; where the metric's name does not tell its unit, `cycles.median [cycle]`."""
    unit = units.metric_unit(metric)
    told = part == "trials" or not unit or metric.endswith({"s": "_s", "byte": "_bytes", "Hz": "_hz"}.get(unit, unit))
    return f"{metric}.{part}" if told else f"{metric}.{part} [{unit}]"


def rows_csv(runs: Sequence[Run], results: Sequence[Result]) -> str:
    """CSV with one line for each case, every parameter a column, units in the names of columns; canaries last, and marked."""
    questions, canaries = _ordered(runs, results)
    cases = questions + canaries
    slots = sorted({slot for summary in cases for slot in summary.case.subject})
    params = sorted({name for summary in cases for name in summary.case.params})
    metrics = _metrics(cases)
    parts = ("median", "low", "high", "trials")
    fixed = ("pass", "dtype", "device", "cache", "timer", "world_size")
    head = ["run", "workload", *(f"subject.{slot}" for slot in slots), *fixed, *(f"param.{name}" for name in params), "arm", "canary",
            "status", "reason", *(_head(m, part) for m in metrics for part in parts), "flops_per_s", "bytes_per_s", "tokens_per_s",
            "command"]  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for position, summary in enumerate(cases):
        case = summary.case
        numbers: list[object] = []
        for metric in metrics:
            value: Mapping[str, object] = _spread_data(summary.values.get(metric)) or {}
            numbers += [value.get(part) for part in parts]
        rates = summary.rates
        numbers += [rate.per_s if rate else None for rate in (rates.flops, rates.bytes, rates.tokens)]
        command = next((result.command for result in summary.counted), None)
        line = [summary.run_id, case.workload, *(case.subject.get(slot) for slot in slots),
                *(summary.axis(axis) for axis in fixed), *(case.params.get(name) for name in params), summary.arm,
                "yes" if position >= len(questions) else "no", summary.outcome, summary.reason, *numbers, command]  # fmt: skip
        writer.writerow([_safe(cell) for cell in line])
    return out.getvalue()
