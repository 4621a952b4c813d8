"""What the memory model foretold of each phase of a sharded step, beside what the fullest rank was seen to hold in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.metrics import METRICS
from bench.plan.validate import WHOLE_ERROR, WHOLE_ERROR_OF_SEVERAL
from bench.report.drawing.figures import case_word
from bench.report.numbers import units
from bench.report.numbers.layout import Section
from bench.report.numbers.predicted import AWAY_METRICS, Foretold, off_words, predicted_phases
from bench.report.numbers.sharded import PHASE_PEAKS, WORLD_SIZE, places, rank_word, ranks_words
from bench.report.numbers.summary import TOTAL, CaseSummary
from bench.report.views.tables import Cell, Head, Table

COLUMNS = (*PHASE_PEAKS, TOTAL)
HEADS = ("forward and loss", "backward", "update", "the whole step")
AWAY_HEADS: Mapping[str, str] = {"host_pinned_bytes": "page-locked on the host", "disk_bytes": "on disk"}
"""Told where a line has both what was measured and what was foretold of it."""
MOST_LINES = 48


@dataclass(frozen=True, slots=True)
class _Line:
    case: CaseSummary
    foretold: Foretold | None
    at: str

    def measured(self, metric: str) -> float | None:
        value = self.case.values.get(metric) if self.case.usable else None
        return value.median if value is not None and value.median > 0 else None

    def predicted(self, metric: str) -> float | None:
        if self.foretold is None:
            return None
        if metric in AWAY_METRICS:
            return self.foretold.away.get(metric)
        return self.foretold.peak_bytes if metric == TOTAL else self.foretold.phases.get(PHASE_PEAKS[metric])

    @property
    def granted(self) -> float:
        """Error of the whole within which `bench plan --validate` passes."""
        return WHOLE_ERROR if self.case.case.world_size == 1 else WHOLE_ERROR_OF_SEVERAL

    @property
    def off(self) -> float | None:
        """Of the whole: predicted over measured, less one."""
        measured, predicted = self.measured(TOTAL), self.predicted(TOTAL)
        return None if measured is None or predicted is None else predicted / measured - 1


def planned_table(section: Section, row_ids: Mapping[tuple[str, str], str]) -> Table | None:
    """Each case that has phases, or was foretold and did not fit; None where none has both."""
    found = [_Line(case, predicted_phases(case), places(section, case, (WORLD_SIZE,))) for case in section.in_order()]
    lines = [line for line in found if line.foretold is not None or any(map(line.measured, PHASE_PEAKS))]
    if not any(line.off is not None for line in lines):
        return None
    away = [metric for metric in AWAY_METRICS if any(line.measured(metric) and line.predicted(metric) for line in lines)]
    heads = (
        Head("subject"),
        Head(f"{rank_word(section.cases[0])}s"),
        *((Head("at"),) if any(line.at for line in lines) else ()),
        *(Head(head, METRICS[metric].description) for head, metric in zip(HEADS, COLUMNS, strict=True)),
        *(Head(AWAY_HEADS[metric], METRICS[metric].description) for metric in away),
    )
    most = {**dict.fromkeys(COLUMNS, _most(lines, COLUMNS)), **{metric: _most(lines, (metric,)) for metric in away}}
    made = tuple(
        (
            Cell(line.case.label, link=row_ids.get((line.case.case.key, line.case.arm))),
            Cell(str(line.case.case.world_size)),
            *((Cell(line.at),) if any(line.at for line in lines) else ()),
            *(_cell(line, metric, largest) for metric, largest in most.items()),
        )
        for line in lines[:MOST_LINES]
    )
    more = (f"The first {MOST_LINES} of {len(lines)} lines.",) if len(lines) > MOST_LINES else ()
    caption = (
        "Highest bytes in each phase, residents included, on the rank that holds most; below, what bench plan says and how far that is "
        "off. Bars begin at zero; shorter is better."
    )
    return Table("Predicted and measured, phase by phase", caption, heads, made, words=(*_words(lines), *more), kind="planned")


def _most(lines: Sequence[_Line], metrics: Sequence[str]) -> float:
    """The largest measured, which is where a bar is full."""
    return max((value for line in lines for metric in metrics if (value := line.measured(metric)) is not None), default=0.0)


def _cell(line: _Line, metric: str, most: float) -> Cell:
    measured, predicted = line.measured(metric), line.predicted(metric)
    plan = "" if predicted is None else f"plan {units.size(predicted)}"
    if measured is None:
        ended = "" if line.case.usable else case_word(line.case)
        return Cell(ended or "–", plan, tint="word" if ended else "none")
    if predicted is None:
        return Cell(units.size(measured), share=measured / most)
    off = predicted / measured - 1
    tint = "warn" if metric == TOTAL and abs(off) > line.granted else ""
    return Cell(units.size(measured), f"{plan}, {off_words(predicted, measured)}", tint, measured / most)


def _words(lines: list[_Line]) -> list[str]:
    """How many are as near as is granted, the one that is farthest off, and by which formulas."""
    judged = [(line, line.off) for line in lines if line.off is not None]
    within = sum(abs(off) <= line.granted for line, off in judged)
    worst, off = max(judged, key=lambda found: abs(found[1]))
    at = f"{ranks_words(worst.case)} · {worst.at}" if worst.at else ranks_words(worst.case)
    granted = f"{units.percent(WHOLE_ERROR)} on one and {units.percent(WHOLE_ERROR_OF_SEVERAL)} on several"
    words = [
        f"Of the whole step {within} of {len(judged)} predictions are within what is granted ({granted}); "
        f"farthest off: {worst.case.label} on {at}, {off_words(1 + off, 1)}."
    ]
    later = list(dict.fromkeys(line.case.label for line in lines if line.foretold is not None and not line.foretold.before))
    if later:
        words.append(f"Rows of {', '.join(later)} keep no prediction of phases: theirs are by today's formulas.")
    return words
