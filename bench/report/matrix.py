"""The matrix of a panel, subject by size: time, ratio to the baseline and peak memory in each cell, or the status as a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import stats
from bench.records import Status
from bench.report.answers import FEW_TRIALS
from bench.report.figures import status_word
from bench.report.layout import Facet
from bench.report.summary import PEAK, TIME, CaseSummary, Spread


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One subject at one size."""

    summary: CaseSummary | None
    time: Spread | None
    peak: Spread | None
    time_ratio: Spread | None
    peak_ratio: Spread | None
    tint: str
    """`faster` or `slower` where there are enough trials and the ranges over trials do not touch the baseline's, else nothing."""
    row_id: str | None
    ended: str | None
    """`3 of 5 trials, 2 timeout` where trials of the case ended differently."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One subject over all sizes of a panel."""

    label: str
    is_baseline: bool
    cells: tuple[MatrixCell, ...]
    growth: tuple[tuple[str, str], ...]
    """Fitted exponents in words, by metric."""


def _growth(cells: Sequence[CaseSummary], swept: str | None) -> tuple[tuple[str, str], ...]:
    found = []
    for metric, name in ((TIME, "time"), (PEAK, "peak")):
        points = [
            (float(x), cell.values[metric].median)
            for cell in cells
            if swept and isinstance(x := cell.axis(swept), int | float) and cell.status is Status.OK and metric in cell.values
        ]
        fit = stats.power_law_exponent([x for x, _ in points], [y for _, y in points])
        if fit:
            error = f" ± {fit[1]:.2f}" if fit[1] >= 0.005 else ""
            found.append((name, f"{fit[0]:.2f}{error}"))
    return tuple(found)


def _cell(facet: Facet, label: str, x: float | int | None, row_ids: Mapping[tuple[str, str], str]) -> MatrixCell:
    summary = facet.cells.get((label, x))
    if summary is None:
        return MatrixCell(None, None, None, None, None, "", None, None)
    usable = summary.status is Status.OK
    time, peak = (summary.values.get(metric) if usable else None for metric in (TIME, PEAK))
    base = facet.cells.get((facet.baseline, x)) if facet.baseline and facet.baseline != label else None
    base_values = base.values if base is not None and base.status is Status.OK else {}
    base_time, base_peak = base_values.get(TIME), base_values.get(PEAK)
    tint = ""
    if time and base_time and min(time.n, base_time.n) >= FEW_TRIALS and not time.overlaps(base_time):
        tint = "faster" if time.median < base_time.median else "slower"
    counts = summary.counts
    ended = None
    if len(counts) > 1:
        others = ", ".join(f"{n} {status_word(s)}" for s, n in counts.items() if s is not summary.status)
        ended = f"{counts[summary.status]} of {sum(counts.values())} trials; {others}"
    return MatrixCell(
        summary,
        time,
        peak,
        time.ratio_to(base_time) if time and base_time else None,
        peak.ratio_to(base_peak) if peak and base_peak else None,
        tint,
        row_ids.get((summary.case.key, summary.arm)),
        ended,
    )


def matrix(facet: Facet, swept: str | None, row_ids: Mapping[tuple[str, str], str]) -> tuple[MatrixRow, ...]:
    """A row for each subject. `row_ids` maps case key and arm to the id of the row that a cell links to."""
    return tuple(
        MatrixRow(
            label,
            label == facet.baseline,
            tuple(_cell(facet, label, x, row_ids) for x in facet.xs),
            _growth(facet.row(label), swept),
        )
        for label in facet.labels
    )
