"""Whether a precision still learns: gradients that are lost or overflow, what scaling does about it, and where the loss ends."""

from __future__ import annotations

from collections.abc import Mapping

from bench.metrics import METRICS
from bench.records import Status
from bench.report.drawing.figures import case_word
from bench.report.numbers import units
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.summary import CaseSummary
from bench.report.views.tables import Cell, Head, Table

SHARES = ("gradient_zero_share", "gradient_subnormal_share", "gradient_nonfinite_share")
COLUMNS: Mapping[str, str] = {
    "gradient_zero_share": "gradients that are zero",
    "gradient_subnormal_share": "subnormal",
    "gradient_nonfinite_share": "not finite",
    "loss_scale": "loss scale",
    "skipped_steps": "skipped steps",
    "gradient_norm": "norm of the gradients",
    "loss_gap": "loss gap",
}
LOST = 0.05
"""Share of gradients, or nats of loss, from which on a cell is marked: more than rounding loses."""


LEAST, LEAST_GAP = 1e-5, 0.001
"""Smaller shares and gaps are told as that."""


def stability(section: Section, facet: Facet, row_ids: Mapping[tuple[str, str], str]) -> Table | None:
    """A line for each subject and size; None where gradients were not looked at, or all are computed in one precision and none is lost."""
    cells = [(label, x, cell) for label in facet.labels for x in facet.xs if (cell := facet.cells.get((label, x))) is not None]
    if not any(name in cell.values for _, _, cell in cells for name in SHARES):
        return None
    precisions = {cell.case.subject.get("precision", cell.case.dtype) for _, _, cell in cells}
    if len(precisions) < 2 and not any(
        _is_lost(name, cell.values[name].median) for _, _, cell in cells for name in SHARES if name in cell.values
    ):
        return None
    shown = [name for name in COLUMNS if any(name in cell.values for _, _, cell in cells)]
    lines = []
    for label, x, cell in cells:
        at = f"{section.swept.replace('_', ' ')} {x}" if section.swept and x is not None and len(facet.xs) > 1 else ""
        head = Cell(label, at, link=row_ids.get((cell.case.key, cell.arm)))
        if not cell.usable:
            why = units.shorten(cell.reason or "", 160)
            word = Cell(case_word(cell), why, tint="bad" if cell.status is Status.INCORRECT else "word")
            lines.append((head, word, *(Cell("–", tint="none") for _ in shown[1:])))
        else:
            lines.append((head, *(_cell(cell, name) for name in shown)))
    heads = (Head("subject"), *(Head(COLUMNS[name], METRICS[name].description) for name in shown))
    caption = (
        "Shares of the gradients of the blocks' matrices, as computed. Loss gap: the mean loss of the last ten of fifty steps of a small"
        f" model, less that of plain fp32, in nats. Marked from {LOST * 100:g} % of the gradients, or {LOST} nat, on."
    )
    return Table("Stability: what each precision loses", caption, heads, tuple(lines), kind="stability")


def _is_lost(name: str, value: float) -> bool:
    return value > LOST or (name == "gradient_nonfinite_share" and value > 0)


def _cell(case: CaseSummary, name: str) -> Cell:
    value = case.values.get(name)
    if value is None:
        return Cell("–", tint="none")
    metric = METRICS[name]
    if name in SHARES:
        tint = "warn" if _is_lost(name, value.median) else ""
        return Cell(_share_text(value.median), tint=tint, share=min(value.median, 1.0))
    if name == "loss_gap":
        text = f"{value.median:+.3f}" if abs(value.median) >= LEAST_GAP else f"within {LEAST_GAP}"
        return Cell(f"{text} {metric.unit}", tint="warn" if value.median > LOST else "")
    return Cell(units.in_unit(value.median, metric.unit) if metric.unit != "count" else _count(value.median))


def _share_text(value: float) -> str:
    return f"< {LEAST * 100:g} %" if 0 < value < LEAST else "0" if value == 0 else units.in_unit(value, "ratio")


def _count(value: float) -> str:
    return units.scaled(value, units.COUNT).replace(" ", "") if value >= 1e4 else units.in_unit(value, "count")
