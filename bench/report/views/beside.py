"""The charts of a panel beside time and memory: what the peak consists of, how long the parts of a step last, time against memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.report.drawing.figures import Style
from bench.report.drawing.parts import WORDS
from bench.report.drawing.stacked import MOST_BARS, stacked
from bench.report.numbers import units
from bench.report.numbers.layout import Facet
from bench.report.numbers.memory import CAUSE_MEANINGS, CAUSES, by_cause
from bench.report.numbers.predicted import predicted_causes, prediction_words
from bench.report.numbers.summary import PHASES, TIME, CaseSummary
from bench.report.views.pareto import front_of, front_words, near_words, pareto

PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a chart as a table: heads with what they mean, and a line for each subject."""

    heads: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Extra:
    """One chart with what is said under it."""

    title: str
    hint: str
    svg: str | None
    words: tuple[str, ...] = ()
    numbers: Numbers | None = None
    is_cut: bool = False
    """Whether the chart has fewer bars than there are."""


def extras(facet: Facet, swept: str | None, chosen: dict[str, Style], prefix: str, room: int, *, draw: bool = True) -> list[Extra]:
    """What a panel shows beside its two charts, at most `room` of them; nothing where it has nothing to show."""
    ways: tuple[Callable[[], Extra | None], ...] = (
        lambda: _causes(facet, swept, f"{prefix}c", draw=draw),
        lambda: _phases(facet, swept, f"{prefix}h", draw=draw),
        lambda: _front(facet, swept, chosen, f"{prefix}o", draw=draw),
    )
    made: list[Extra] = []
    for way in ways:
        if len(made) < room and (extra := way()) is not None:
            made.append(extra)
    return made


def _at(swept: str | None, x: float | int | None) -> str:
    return f" at {swept.replace('_', ' ')} {x}" if swept and x is not None else ""


def _largest(
    facet: Facet, parts: Callable[[CaseSummary], dict[str, float]]
) -> tuple[float | int | None, list[tuple[CaseSummary, dict[str, float]]]]:
    """The largest size at which most subjects have parts, and those parts."""
    best: tuple[float | int | None, list[tuple[CaseSummary, dict[str, float]]]] = (None, [])
    for x in facet.xs:
        cells = [cell for label in facet.labels if (cell := facet.cells.get((label, x))) is not None]
        found = [(cell, own) for cell in cells if (own := parts(cell))]
        if found and len(found) >= len(best[1]):
            best = (x, found)
    return best


def _numbers(
    found: Sequence[tuple[CaseSummary, dict[str, float]]], order: tuple[str, ...], unit: str, meanings: Mapping[str, str]
) -> Numbers:
    present = [part for part in order if any(part in parts for _, parts in found)]
    heads = (("subject", ""), *((WORDS[part], meanings.get(part, "")) for part in present), ("sum", ""))
    lines = tuple(
        (
            cell.label,
            *(units.in_unit(parts[part], unit) if part in parts else "–" for part in present),
            units.in_unit(sum(parts.values()), unit),
        )
        for cell, parts in found
    )
    return Numbers(heads, lines)


def _more(found: Sequence[object]) -> tuple[str, ...]:
    return (f"The chart has the first {MOST_BARS} of {len(found)} bars; the table has all.",) if len(found) > MOST_BARS else ()


@dataclass(frozen=True, slots=True)
class Peaks:
    """What the peaks of a panel consist of, at one size."""

    title: str
    found: tuple[tuple[CaseSummary, dict[str, float]], ...]
    numbers: Numbers


def peaks_by_cause(facet: Facet, swept: str | None) -> Peaks | None:
    """At the largest size at which most subjects have an explained peak; None where none has."""
    x, found = _largest(facet, by_cause)
    return Peaks(f"Peak by cause{_at(swept, x)}", tuple(found), _numbers(found, CAUSES, "byte", CAUSE_MEANINGS)) if found else None


def _causes(facet: Facet, swept: str | None, prefix: str, *, draw: bool) -> Extra | None:
    peaks = peaks_by_cause(facet, swept)
    if peaks is None:
        return None
    predicted = {cell.label: parts for cell, _ in peaks.found if (parts := predicted_causes(cell))}
    bars = []
    for cell, parts in peaks.found:
        bars.append((cell.label, parts))
        if cell.label in predicted:
            bars.append((PREDICTED, predicted[cell.label]))
    svg = stacked(bars, "byte", title=peaks.title.lower(), prefix=prefix, bold=facet.baseline, below=PREDICTED) if draw else ""
    if svg is None:
        return None
    hint = "all that is resident included · lower is better"
    words = tuple(text for cell, _ in peaks.found if (text := prediction_words(cell)))
    told = ("Below each bar what the memory model predicts of it:", *words) if words else ()
    return Extra(peaks.title, hint, svg, told + _more(bars), peaks.numbers, is_cut=len(bars) > MOST_BARS)


def _phases(facet: Facet, swept: str | None, prefix: str, *, draw: bool) -> Extra | None:
    def parts(cell: CaseSummary) -> dict[str, float]:
        return {name: cell.values[name].median for name in PHASES if cell.usable and name in cell.values}

    x, found = _largest(facet, parts)
    bars = [(cell.label, own) for cell, own in found]
    svg = stacked(bars, "s", title=f"parts of a step{_at(swept, x)}", prefix=prefix, bold=facet.baseline) if draw else ""
    if svg is None or not found:
        return None
    apart = [
        f"{cell.label} {units.ratio(sum(own.values()) / cell.values[TIME].median)}"
        for cell, own in found
        if TIME in cell.values and cell.values[TIME].median > 0
    ]
    words = ("Taken in a pass of its own, with a mark between the parts. The sum over the timed step: " + ", ".join(apart) + ".",)
    hint = "medians · lower is better"
    numbers = _numbers(found, PHASES, "s", {})
    cut = len(found) > MOST_BARS
    return Extra(f"Forward, backward, optimizer{_at(swept, x)}", hint, svg, words + _more(found), numbers, is_cut=cut)


def _front(facet: Facet, swept: str | None, chosen: dict[str, Style], prefix: str, *, draw: bool) -> Extra | None:
    front = front_of(facet)
    if front is None:
        return None
    try:
        svg = pareto(front, facet, chosen, prefix) if draw else ""
    except ValueError:
        return None  # values that no axis carries, as only an imported row may hold; the charts above say so
    hint = "nearer to the lower left is better · both axes logarithmic · dashed: what nobody beats in both · hollow: other numbers"
    return Extra(
        f"Time against memory{_at(swept, front.x)}", hint, svg, (front_words(front, facet, swept), *near_words(front, facet.memory))
    )
