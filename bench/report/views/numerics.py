"""How far each subject is off the float64 reference: its errors as shares of their limit, and the size of its output's error."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bench.records import Check
from bench.report.drawing.figures import Style
from bench.report.drawing.strips import BAR, FULL, HOLLOW, Line, Mark, Strip, strips
from bench.report.numbers import units
from bench.report.numbers.findings import ERRORS, title
from bench.report.numbers.layout import Facet
from bench.report.numbers.summary import CaseSummary
from bench.report.views.tables import Table

FEWEST = 2
LEAST_SHARE = 1e-6
"""Errors below this share of their limit are drawn there: an exact result has no place on a logarithmic axis."""


def numerics(facet: Facet, chosen: Mapping[str, Style]) -> list[Table]:
    """Charts of one panel, over all its sizes; none where fewer than two subjects were compared with a reference."""
    return [table for table in (_limits(facet, chosen), *(_errors(facet, chosen, metric) for metric in ERRORS)) if table]


def _worst(cells: list[CaseSummary]) -> Check | None:
    """The check that comes nearest to its limit, or farthest beyond it."""
    found = [
        check
        for cell in cells
        for result in cell.counted
        for check in result.checks
        if check.error is not None and check.limit and math.isfinite(check.error)
    ]
    return max(found, key=lambda check: (check.error or 0.0) / (check.limit or 1.0), default=None)


def _limits(facet: Facet, chosen: Mapping[str, Style]) -> Table | None:
    worst = {label: check for label in facet.labels if (check := _worst(facet.row(label))) is not None}
    if len(worst) < FEWEST:
        return None
    rows = []
    for label, check in worst.items():
        error, limit = check.error or 0.0, check.limit or 1.0
        marks = [Mark(FULL, max(error / limit, LEAST_SHARE))]
        if check.plain_error:
            marks.insert(0, Mark(HOLLOW, max(check.plain_error / limit, LEAST_SHARE)))
        words = f"{units.scientific(error)} of {units.scientific(limit)} ({check.tensor}, {check.at})"
        rows.append(Strip(label, tuple(marks), words, chosen[label].colour, label == facet.baseline))
    svg = strips(
        rows,
        title="largest error as a share of its limit",
        tick=_share,
        lines=[Line(1.0, "limit")],
    )
    caption = "● the subject's largest error beside float64, as a share of its limit · ○ plain PyTorch's in the same dtype · left is better"
    return Table("Error against the reference", caption, (), (), svg) if svg else None


def _share(value: float) -> str:
    return f"{value:g}×" if value >= 1 else f"{value * 100:g} %"


def _errors(facet: Facet, chosen: Mapping[str, Style], metric: str) -> Table | None:
    rows = []
    for label in facet.labels:
        found = [cell.values[metric] for cell in facet.row(label) if cell.usable and metric in cell.values]
        if not found:
            continue
        low, high = min(v.low for v in found), max(v.high for v in found)
        value = found[-1].median
        marks = [Mark(FULL, value)] if low == high else [Mark(BAR, low, high), Mark(FULL, value)]
        words = units.range_in_unit(low, high, units.metric_unit(metric))
        rows.append(Strip(label, tuple(marks) if low > 0 else (), words, chosen[label].colour, label == facet.baseline))
    if len(rows) < FEWEST:
        return None
    name = title(metric)
    svg = strips(rows, title=name, tick=_share)
    caption = "root mean square beside the reference, relative to it · left is better · bar: range over sizes and trials"
    return Table(name[:1].upper() + name[1:], caption, (), (), svg) if svg else None
