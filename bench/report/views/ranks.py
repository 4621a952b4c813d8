"""Each rank of a case by itself: its time and memory beside the others', since the slowest and the fullest rank decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.metrics import COLLECTIVES, METRICS
from bench.report.drawing.figures import TITLES
from bench.report.numbers import units
from bench.report.numbers.by_rank import by_rank
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.predicted import Foretold, off_words, predicted_phases
from bench.report.numbers.sharded import CAUSE_PEAKS, PHASE_PEAKS
from bench.report.numbers.summary import TIME, TOTAL, CaseSummary
from bench.report.views.tables import Cell, Head, Table

COLUMNS = (
    TIME, "exposed_communication_share", "communicated_bytes", *(f"{kind}_bytes" for kind in COLLECTIVES), "peak_bytes",
    "peak_total_bytes", "weight_bytes", "gradient_bytes", "master_bytes", "state_bytes",
    *(f"{phase}_peak{kind}_bytes" for phase in ("forward", "backward", "optimizer") for kind in ("", "_reserved")),
    "host_resident_bytes", "host_pinned_bytes", "state_host_bytes", "disk_bytes",
)  # fmt: skip
"""What decides, and what sharding spreads over ranks; each only where it was measured."""
TOLD = (*COLUMNS, *CAUSE_PEAKS)
"""What a page's data hold of each rank: the causes of its peak as well, by which stages are told apart."""
UNUSED = frozenset(f"{kind}_bytes" for kind in COLLECTIVES)
"""Not told where no rank puts a byte into it."""
MOST_LINES = 64
BESIDE_PLAN = "Below a peak: how far the plan's, made before it ran and of the rank that needs most, is above or below it."


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    link: str | None
    rank: int
    values: Mapping[str, float]
    notes: Mapping[str, str]
    """Metric to what stands below its number."""


def rank_table(section: Section, facet: Facet, row_ids: Mapping[tuple[str, str], str]) -> Table | None:
    """At the largest size of each subject that ran on several ranks; None where none did."""
    lines: list[_Line] = []
    uneven = []
    for label in facet.labels:
        case = next((cell for cell in reversed(facet.row(label)) if cell.usable and by_rank(cell)), None)
        if case is None:
            continue
        ranks = by_rank(case)
        at = _at(section, case)
        link = row_ids.get((case.case.key, case.arm))
        foretold = predicted_phases(case)
        lines += [_Line(f"{label}{at}", link, rank, own, _beside(foretold, own)) for rank, own in ranks.items()]
        uneven += [*_shared_out(label, case), *_uneven(label, ranks)]
    if not lines:
        return None
    shown = [name for name in COLUMNS if any(name in line.values and (line.values[name] or name not in UNUSED) for line in lines)]
    most = {name: max(line.values.get(name, 0.0) for line in lines) for name in shown}
    heads = (Head("subject"), Head("rank"), *(_head(name) for name in shown))
    made = tuple(
        (Cell(line.label, link=line.link), Cell(f"rank {line.rank}"), *(_cell(line, name, most[name]) for name in shown))
        for line in lines[:MOST_LINES]
    )
    more = (f"The first {MOST_LINES} of {len(lines)} lines.",) if len(lines) > MOST_LINES else ()
    told = (BESIDE_PLAN,) if any(line.notes for line in lines) else ()
    caption = "Medians over trials. A call lasts as long as its slowest rank. Bars begin at zero; shorter is better."
    return Table("Rank by rank", caption, heads, made, words=(*told, *uneven, *more), kind="ranks")


def _beside(foretold: Foretold | None, own: Mapping[str, float]) -> dict[str, str]:
    """How far the prediction is off that was made before the row ran; nothing where rows keep none of phases."""
    if foretold is None or not foretold.before:
        return {}
    sizes = {metric: foretold.phases.get(phase) for metric, phase in PHASE_PEAKS.items()} | {TOTAL: foretold.peak_bytes}
    return {
        metric: f"plan {off_words(size, own[metric])}"
        for metric, size in sizes.items()
        if size is not None and own.get(metric, 0.0) > 0
    }


def _head(name: str) -> Head:
    words = TITLES.get(name, name.removesuffix("_bytes").replace("_", " "))
    return Head(words, METRICS[name].description if name in METRICS else "")


def _at(section: Section, case: CaseSummary) -> str:
    value = case.axis(section.swept) if section.swept else None
    return f" at {section.swept.replace('_', ' ')} {value}" if section.swept and value is not None else ""


def _shared_out(label: str, case: CaseSummary) -> list[str]:
    """What of the model each rank has only a part of, where the rows say it."""
    told = next((row.conditions for row in case.counted if "shared_out" in row.conditions), None)
    if told is None:
        return []
    shared, whole = told["shared_out"] or "nothing", told.get("kept_whole") or "nothing"
    return [f"{label}: shared out are {shared}; whole on each rank {whole}."]


def _uneven(label: str, ranks: Mapping[int, Mapping[str, float]]) -> list[str]:
    """How far apart the ranks are in what decides."""
    words = []
    for name in (TIME, "peak_total_bytes", "peak_bytes"):
        values = {rank: own[name] for rank, own in ranks.items() if name in own}
        if len(values) > 1 and min(values.values()) > 0:
            top = max(values, key=lambda rank: values[rank])
            ratio = values[top] / min(values.values())
            words.append(f"{TITLES.get(name, name)} {units.ratio(ratio)} from the lowest rank to the highest (rank {top})")
    return [f"{label}: {', '.join(words[:2])}."] if words else []


def _cell(line: _Line, name: str, most: float) -> Cell:
    value = line.values.get(name)
    if value is None:
        return Cell("–", tint="none")
    share = value / most if most > 0 and value >= 0 else None
    return Cell(units.in_unit(value, units.metric_unit(name)), line.notes.get(name, ""), share=share)
