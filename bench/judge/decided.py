"""What becomes of a suspect of a night once it was measured again in turn with the last good version: its verdict, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bench.judge.verdict import Kind, Verdict, Word

PROVISIONAL = "provisional"
"""The first word of the note that says why a suspect was not measured again."""


def provisional(suspect: Verdict, why: str) -> Verdict:
    """A suspect that could not be measured again: what the night alone says of it stands."""
    flat = "; ".join(line.strip() for line in why.splitlines())
    return replace(suspect, notes=(*suspect.notes, f"{PROVISIONAL}, not measured beside the last good version: {flat}"))


def verdict_of(suspect: Verdict, measured: Sequence[Verdict]) -> Verdict | None:
    """The verdict on the suspect's metric, where there is one among those of its case."""
    return next((verdict for verdict in measured if verdict.series.metric == suspect.series.metric), None)


def decided(suspect: Verdict, measured: Sequence[Verdict], run_id: str, what: str) -> Verdict:
    """The suspect as run `run_id` leaves it.

    Args:
        measured: all verdicts on its case, the last good version first and today's second.
        what: the last good version, in words.
    """
    beside = f"measured again in turn with {what}"
    return (_decided_by_end if suspect.kind is Kind.STATUS else _decided_by_value)(suspect, measured, run_id, beside)


def _decided_by_end(suspect: Verdict, measured: Sequence[Verdict], run_id: str, beside: str) -> Verdict:
    own = next((verdict for verdict in measured if verdict.kind is Kind.STATUS), None)
    if own is not None and own.word is Word.INVALID:
        return provisional(suspect, own.reason)
    if own is None or own.word is Word.BETTER:
        reason = f"not confirmed: {beside} it ran; in the night itself {suspect.second.outcome}"
        return replace(suspect, word=Word.AMBIGUOUS, reason=reason, confirmed_in=run_id)
    if own.word is Word.WORSE:
        reason = f"confirmed: {beside}, {own.reason}"
    else:
        reason = f"{suspect.reason}; {beside}, that does not run either ({own.first.outcome}): it is not the code alone"
    return replace(suspect, reason=reason, first=own.first, second=own.second, confirmed_in=run_id)


def _decided_by_value(suspect: Verdict, measured: Sequence[Verdict], run_id: str, beside: str) -> Verdict:
    own = verdict_of(suspect, measured)
    exact = suspect.screening is None
    if own is not None and own.word is Word.INVALID:
        return provisional(suspect, own.reason)
    if own is None or (own.ratio is None and not exact):
        ended = next((verdict for verdict in measured if verdict.kind is Kind.STATUS), None)
        how = f"then {ended.first.outcome}, now {ended.second.outcome}" if ended else "it gave no number"
        return provisional(suspect, f"there was no pair of numbers ({how})")
    grown = exact or (suspect.ratio is not None and suspect.ratio.value > 1)
    word: Word = Word.AMBIGUOUS
    if own.word is (Word.WORSE if grown else Word.BETTER):
        word, reason = own.word, f"confirmed: {beside}, {own.reason}"
    elif own.word is Word.SAME and _clears(own, suspect):
        word, reason = Word.SAME, f"{beside} it is the same: tonight the machine was other, or what else is around it"
    elif own.word is Word.SAME:
        told = f"{own.ratio.interval.low:.3f} to {own.ratio.interval.high:.3f}" if own.ratio and own.ratio.interval else ""
        reason = f"not confirmed: {beside} it is {own.reason}, which may still be half of what the night saw ({told})"
    else:
        reason = f"not confirmed: {beside} it is {own.word} ({own.reason})"
    usual = "what is usual" if exact else "its median"
    seen = f"in the night itself it was {suspect.ratio.value:.3f}× {usual}" if suspect.ratio else "in the night itself suspect"
    return replace(
        suspect, word=word, reason=reason, first=own.first, second=own.second, ratio=own.ratio, threshold=own.threshold, p=own.p,
        effect=own.effect, smallest_detectable=own.smallest_detectable, cycles=own.cycles, notes=(*own.notes, seen),
        settle=suspect.settle if word is Word.AMBIGUOUS else None, confirmed_in=run_id,
    )  # fmt: skip


def _clears(own: Verdict, suspect: Verdict) -> bool:
    """Whether less than half of what the night saw is left, so that the code is not what moved: equal within a margin is not enough.

    A change below the margin is both equal and there. Of exact rules there is no interval, and equal is equal.
    """
    if own.ratio is None or own.ratio.interval is None or suspect.ratio is None:
        return True
    half = math.sqrt(suspect.ratio.value)
    return own.ratio.interval.high < half if half > 1 else own.ratio.interval.low > half
