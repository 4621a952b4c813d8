"""What an opened row says of its peak: how memory grew over one step, which temporaries lay at the top, and how two passes compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.drawing.timeline import legend, timeline
from bench.report.numbers import units
from bench.report.numbers.memory import by_cause, causes_words, explained
from bench.report.numbers.summary import TOTAL
from bench.report.views.rows import Row

MOST_TIMELINES = 40
"""Drawn in one page, about 6 kB each; further rows keep their temporaries in words."""
MOST_WITHOUT_CURVE = 3
"""Temporaries that are told of a row without a curve: `bench show` has all."""
SHOWN_WHERE = 160


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one row."""

    svg: str | None
    legend: tuple[tuple[int, str], ...]
    """Pattern and name of each cause."""
    causes: str
    """The peak by cause, `parameters 240 MiB, …`."""
    temporaries: tuple[tuple[str, str], ...]
    """Where, and how much, the largest first."""
    more: int
    """Temporaries that are not listed."""
    peaks: str
    """The two peaks, and how far they are apart."""


def explanations(rows: Sequence[Row], room: int) -> dict[str, Explanation]:
    """By the id of the row; a curve for the first `room` of them."""
    found: dict[str, Explanation] = {}
    for row in rows:
        explanation = explain(row, draw=sum(e.svg is not None for e in found.values()) < room) if row.has_values else None
        if explanation is not None:
            found[row.id] = explanation
    return found


def explain(row: Row, *, draw: bool) -> Explanation | None:
    """None where the row's peak was not explained."""
    summary = row.summary
    seen, causes = explained(summary), by_cause(summary)
    if seen is None:
        return None
    svg = timeline(seen, title=f"memory of {summary.label} over one step") if draw else None
    shown = seen.temporaries if svg else seen.temporaries[:MOST_WITHOUT_CURVE]
    return Explanation(
        svg=svg,
        legend=legend(seen) if svg else (),
        causes=causes_words(causes),
        temporaries=tuple((units.shorten(where, SHOWN_WHERE), units.size(size)) for where, size in shown),
        more=len(seen.temporaries) - len(shown),
        peaks=_peaks(row, seen.peak_bytes, seen.phase),
    )


def _peaks(row: Row, here: float, phase: str) -> str:
    text = f"Peak of the pass that explains it: {units.size(here)}{f', in {phase}' if phase else ''}."
    undisturbed = row.summary.values.get(TOTAL)
    if undisturbed is None:
        return text
    off = here - undisturbed.median
    if off == 0:
        return f"{text} The undisturbed memory pass has the same peak, to the byte."
    share = f", {units.percent(abs(off) / undisturbed.median)}" if undisturbed.median > 0 else ""
    return f"{text} The undisturbed memory pass: {units.size(undisturbed.median)}; they differ by {units.size(abs(off))}{share}."
