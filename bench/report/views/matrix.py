"""The matrix of a panel, subject by size: time, ratio to the baseline and peak memory in each cell, or the status as a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.judge.rates import FLOPS, TOKENS, Rate, Rates
from bench.judge.verdict import BETTER, WORSE
from bench.report.answers.against import Judged
from bench.report.drawing.figures import case_word, status_word
from bench.report.numbers.findings import lines, other_numbers, telling
from bench.report.numbers.layout import Facet
from bench.report.numbers.memory import is_training_step
from bench.report.numbers.rates import Utilisation, cycles_words, rate_words, utilisation
from bench.report.numbers.summary import CYCLES, TIME, CaseSummary, Spread
from bench.report.numbers.units import in_unit, metric_unit, percent, range_in_unit, ratio, seconds
from bench.report.views.rows import Depth
from bench.report.views.stability import COLUMNS

TINTS = {BETTER: "faster", WORSE: "slower"}
NO_TIME, NOT_RUN, ABOVE, BASELINE, OTHER = "no time", "not run", "above the ceiling", "baseline", "≠ other numbers"
"""What rows and cells say beside numbers."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One subject at one size."""

    summary: CaseSummary | None
    time: Spread | None
    peak: Spread | None
    time_ratio: Spread | None
    peak_ratio: Spread | None
    tint: str
    """`faster` or `slower` where the time is judged better or worse than the baseline's, else nothing."""
    rate: str | None
    """`519 TFLOP/s` or `3.10 TB/s`: the rate that is nearer to its limit, where a limit is known, if only that of another format."""
    share: str | None
    """That rate over the measured ceiling, else over the data sheet: `71 %`."""
    above: bool
    """Whether a rate lies above the ceiling that the run measured."""
    rated: Rate | None
    """What `rate` and `share` are of."""
    utilisation: Utilisation | None
    findings: tuple[str, ...]
    cycles: str | None
    row_id: str | None
    ended: str | None
    """`3 of 5 trials, 2 timeout` where trials of the case ended differently."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One subject over all sizes of a panel."""

    label: str
    is_baseline: bool
    other_numbers: bool
    """Whether it computes something else on purpose."""
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """What all cells of a panel share."""

    facet: Facet
    row_ids: Mapping[tuple[str, str], str]
    memory: str
    findings: tuple[str, ...]
    others: frozenset[str]
    judged: Judged | None


def _cell(shown: _Shown, label: str, x: float | int | None) -> MatrixCell:
    facet = shown.facet
    summary = facet.cells.get((label, x))
    if summary is None:
        return MatrixCell(None, None, None, None, None, "", None, None, False, None, None, (), None, None, None)
    usable = summary.usable
    time, peak = (summary.values.get(metric) if usable else None for metric in (TIME, shown.memory))
    base = facet.cells.get((facet.baseline, x)) if facet.baseline and facet.baseline != label else None
    base_values = base.values if base is not None and base.usable else {}
    base_time, base_peak = base_values.get(TIME), base_values.get(shown.memory)
    against = shown.judged.of(summary, TIME) if shown.judged and time and base_time else None
    tint = TINTS.get(against.word, "") if against else ""
    counts = summary.counts
    ended = None
    if len(counts) > 1:
        others = ", ".join(f"{n} {status_word(s)}" for s, n in counts.items() if s is not summary.status)
        ended = f"{counts[summary.status]} of {sum(counts.values())} trials; {others}"
    rates = summary.rates
    rate = _telling_rate(rates)
    utilised = utilisation(summary)
    if is_training_step(summary):
        rate = rates.tokens
    return MatrixCell(
        summary,
        time,
        peak,
        time.ratio_to(base_time) if time and base_time else None,
        peak.ratio_to(base_peak) if peak and base_peak else None,
        tint,
        rate_words(rate) if rate else None,
        _share_text(rate) if rate and rate.share else None,
        bool(rates.above_measured),
        rate if rate and rate.share else None,
        utilised,
        lines(summary, shown.findings),
        cycles_words(summary.values[CYCLES]) if usable and CYCLES in summary.values else None,
        shown.row_ids.get((summary.case.key, summary.arm)),
        ended,
    )


def _telling_rate(rates: Rates) -> Rate | None:
    rate = rates.leading
    if rate is None or rate.kind == TOKENS:
        return None
    return rate if rate.share or (rate.kind == FLOPS and rate.withheld) else None


def row_words(row: MatrixRow) -> str:
    """What stands at the head of a row."""
    return f"{row.label} {BASELINE if row.is_baseline else ''} {OTHER if row.other_numbers else ''}"


def cell_parts(cell: MatrixCell, memory: str, depth: Depth) -> tuple[tuple[str, str], ...]:
    """What a cell says on a page of this depth, part by part, each with what it is counted among."""
    if cell.summary is None:
        return (("statuses", NOT_RUN),)
    parts: list[tuple[str, str]] = []
    if cell.time is None and cell.peak is None:
        parts.append(("statuses", case_word(cell.summary)))
    elif cell.time is None:
        parts.append(("statuses", NO_TIME))
    else:
        parts.append(("values", seconds(cell.time.median)))
        if cell.time_ratio:
            parts.append(("ratios", ratio(cell.time_ratio.median)))
        between = range_in_unit(cell.time.low, cell.time.high, metric_unit(TIME))
        parts.append(("ranges", f"{between}, n {cell.time.n}" if cell.time.n > 1 else "n 1"))
        if cell.cycles and depth.full:
            parts.append(("values", f"{cell.cycles} cycles"))
        if cell.rate:
            share = f"MFU {percent(cell.utilisation.share)}" if cell.utilisation else cell.share or ""
            parts.append(("rates and shares", f"{cell.rate} {share} {ABOVE if cell.above else ''}"))
    if cell.peak:
        parts.append(("values", in_unit(cell.peak.median, metric_unit(memory))))
        if cell.peak_ratio:
            parts.append(("ratios", ratio(cell.peak_ratio.median)))
    parts += [
        ("other metrics", text) for text in cell.findings if not depth.brief and not (cell.time is None and cell.peak is None)
    ]
    return (*parts, *((("statuses", cell.ended),) if cell.ended else ()))


def _share_text(rate: Rate) -> str:
    """`71 %` of the measured ceiling, or `52 % of the data sheet` where the run measured none for this case, `48 % for fp8` where that
    is of another format's limit than that of the case's dtype.
    """
    if rate.share is None or rate.measured:
        return percent(rate.share.value) if rate.share else ""
    of = rate.share.ceiling.format
    return f"{percent(rate.share.value)} {f'for {of}' if of else 'of the data sheet'}"


def matrix(facet: Facet, row_ids: Mapping[tuple[str, str], str], judged: Judged | None) -> tuple[MatrixRow, ...]:
    """A row for each subject. `row_ids` maps case key and arm to the id of the row that a cell links to."""
    told = tuple(name for name in telling(facet) if name not in COLUMNS)
    shown = _Shown(facet, row_ids, facet.memory, told, other_numbers(facet), judged)
    return tuple(
        MatrixRow(
            label,
            label == facet.baseline,
            label in shown.others,
            tuple(_cell(shown, label, x) for x in facet.xs),
        )
        for label in facet.labels
    )
