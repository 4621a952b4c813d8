"""The scorecard of a workload: each subject over all its points in one line, with the geometric mean, the best and the worst of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.verdict import READER_WORDS
from bench.report.answers.against import OTHER, Against, Judged
from bench.report.answers.readings import span_text
from bench.report.drawing.figures import case_word
from bench.report.numbers import units
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.summary import TIME, CaseSummary

FEWEST_POINTS = 2
"""With one point the matrix says it all."""


@dataclass(frozen=True, slots=True)
class Score:
    """One subject. Ratios are to the baseline, over the points at which both have the number."""

    label: str
    is_baseline: bool
    n: int
    """Points with a ratio of times."""
    of: int
    """Points that were asked for."""
    time: str
    """Geometric mean, `0.52×`, or nothing."""
    memory: str
    best: tuple[str, str] | None
    """Ratio of times and where it is lowest."""
    worst: tuple[str, str] | None
    words: tuple[tuple[str, int], ...]
    """The five words by time with their counts, those of zero left out."""
    without: str
    """How the others ended: `2 OOM, 1 timeout`."""


def scorecard(section: Section, judged: Judged | None) -> tuple[Score, ...]:
    """A line for each subject; none where there is no baseline, one subject, or one point."""
    points = sum(len(facet.xs) for facet in section.facets)
    if judged is None or len(section.labels) < 2 or points < FEWEST_POINTS:
        return ()
    return tuple(_score(section, judged, label) for label in section.labels)


def _score(section: Section, judged: Judged, label: str) -> Score:
    cells = [(facet, x, cell) for facet in section.facets for x in facet.xs if (cell := facet.cells.get((label, x))) is not None]
    own = any(facet.baseline == label for facet in section.facets)
    times = [(facet, x, entry) for facet, x, cell in cells if _has_ratio(entry := judged.of(cell, TIME))]
    sizes = [entry for _, _, cell in cells if _has_ratio(entry := judged.of(cell, section.memory))]
    ordered = sorted(((entry.ratio or 0.0, facet, x) for facet, x, entry in times if entry), key=lambda line: line[0])
    found = Counter(entry.word for _, _, cell in cells if (entry := judged.of(cell, TIME)))
    return Score(
        label,
        own,
        len(times),
        len(cells),
        _mean([ratio for ratio, _, _ in ordered]),
        _mean([entry.ratio for entry in sizes if entry and entry.ratio]),
        _place(section, ordered[0]) if ordered else None,
        _place(section, ordered[-1]) if ordered else None,
        tuple((word, found[word]) for word in (*READER_WORDS, OTHER) if found[word]),
        _endings([cell for _, _, cell in cells if not cell.usable]),
    )


def _has_ratio(entry: Against | None) -> bool:
    return entry is not None and entry.ratio is not None and entry.ratio > 0


def _mean(ratios: Sequence[float]) -> str:
    return units.ratio(math.exp(math.fsum(map(math.log, ratios)) / len(ratios))) if ratios else ""


def _place(section: Section, found: tuple[float, Facet, float | int | None]) -> tuple[str, str]:
    ratio, facet, x = found
    return units.ratio(ratio), span_text(facet, section.swept, [x])


def _endings(cells: Sequence[CaseSummary]) -> str:
    return ", ".join(f"{n} {word}" for word, n in Counter(map(case_word, cells)).items())
