"""Why one stage of sharding holds no less than another: where each is fullest, and what differs by phase, by cause and as planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bench.plan.terms import Moment
from bench.report.numbers import units
from bench.report.numbers.by_rank import fullest
from bench.report.numbers.memory import CAUSE_WORDS
from bench.report.numbers.predicted import by_formulas
from bench.report.numbers.sharded import CAUSE_PEAKS, PHASE_PEAKS, stage
from bench.report.numbers.summary import CaseSummary

LEAST = 0.01
"""Of the higher peak: what differs by less is not told."""
MOST_TERMS = 5
WEIGHTS = "weights"
"""The memory model's terms of them have the tensor behind a colon."""
SHARED_BEYOND: Mapping[tuple[str, str], str] = {("zero1", "zero2"): "gradients"}
"""Of two stages, the cause that the second shares out besides."""
PHASE_WORDS: Mapping[str, str] = {"forward": "forward and loss", "backward": "backward", "optimizer": "update"}


def why_no_less(other: CaseSummary, own: CaseSummary, where: str, metric: str) -> list[str]:
    """Sentences on the two at one size; none where one of them has no peak."""
    first, second = other.values.get(metric), own.values.get(metric)
    if first is None or second is None or not (other.usable and own.usable):
        return []
    least = LEAST * max(first.median, second.median)
    one, two = stage(other), stage(own)
    phases = _phases(other), _phases(own)
    words = [
        f"At {where} {two} peaks at {units.size(second.median)}{_in(phases[1])}, {one} at {units.size(first.median)}{_in(phases[0])}."
    ]
    parts = []
    if phases[0].keys() == phases[1].keys() and phases[0]:
        parts.append(f"by phase {_signed(_less(phases[1], phases[0]), PHASE_WORDS, 0.0)}")
    causes = _causes(other), _causes(own)
    if all(causes):
        found = _signed(_less(causes[1], causes[0]), CAUSE_WORDS, least)
        parts.append(f"by cause at the peaks {found}" if found else "by cause at the peaks nothing differs by 1 %")
    if parts:
        words.append(f"{two} less {one}: {'; '.join(parts)}.")
    beyond = SHARED_BEYOND.get((one, two), "")
    if beyond in causes[0]:
        held = units.size(causes[0][beyond])
        words.append(f"At its peak {one} holds {held} of {beyond}, which is all that {two} shares out beyond it.")
    return words + _as_planned(other, own)


def _phases(case: CaseSummary) -> dict[str, float]:
    return {phase: case.values[name].median for name, phase in PHASE_PEAKS.items() if name in case.values}


def _causes(case: CaseSummary) -> dict[str, float]:
    """Of the fullest rank, since causes of several ranks do not add up to a peak."""
    own = fullest(case)
    return {cause: own[name] for name, cause in CAUSE_PEAKS.items() if name in own}


def _in(phases: Mapping[str, float]) -> str:
    return f" in the {PHASE_WORDS[max(phases, key=lambda phase: phases[phase])]}" if phases else ""


def _less(second: Mapping[str, float], first: Mapping[str, float]) -> dict[str, float]:
    return {name: second.get(name, 0.0) - first.get(name, 0.0) for name in dict.fromkeys((*first, *second))}


def _signed(differences: Mapping[str, float], words: Mapping[str, str], least: float, between: str = ", ") -> str:
    """`gradients +954 MiB, parameters -1.15 GiB`; those below `least` are left out, and the largest comes first where some may be."""
    told = {name: value for name, value in differences.items() if abs(value) >= least}
    order = sorted(told, key=lambda name: -abs(told[name])) if least else list(told)
    return between.join(f"{words.get(name, name)} {_sign(told[name])}" for name in order)


def _sign(value: float) -> str:
    return "±0" if value == 0 else f"{'+' if value > 0 else '-'}{units.size(abs(value))}"


def _as_planned(other: CaseSummary, own: CaseSummary) -> list[str]:
    """Where the memory model has both fullest, and which of its terms differ there; nothing without formulas."""
    before, after = by_formulas(other), by_formulas(own)
    if before is None or after is None:
        return []
    peaks = before.peak, after.peak
    one, two = stage(other), stage(own)
    at = (
        f"both fullest at: {peaks[0].name}"
        if peaks[0].name == peaks[1].name
        else f"{one} fullest at: {peaks[0].name}; {two} at: {peaks[1].name}"
    )
    terms = _terms(peaks[0]), _terms(peaks[1])
    found = _less(terms[1], terms[0])
    most = sorted(found, key=lambda name: -abs(found[name]))[:MOST_TERMS]
    least = LEAST * max(peaks[0].size_bytes, peaks[1].size_bytes)
    differs = _signed({name: found[name] for name in most}, {}, least, "; ")  # names of terms hold commas
    return [f"bench plan has {at}; {two} less {one} there: {differs or 'nothing that differs by 1 %'}."]


def _terms(moment: Moment) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for term in moment.terms:
        sizes[WEIGHTS if term.name.startswith(f"{WEIGHTS}: ") else term.name] += term.size_bytes
    return sizes
