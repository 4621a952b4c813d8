"""Changes that somebody accepts, with author, reason and an end: until then they fail no job, and afterwards they come back.

An acceptance covers what was seen when it was made, and no more: a row that has become worse than that by more than the margin of equality
counts again. Nothing is hidden: an accepted row keeps its verdict and says who accepted it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.errors import SelectionError
from bench.judge.thresholds import MARGIN
from bench.judge.verdict import Kind, Verdict, Word

if TYPE_CHECKING:
    from bench.store import Acceptance, Baseline

ENDED, EXCEEDED = "was accepted until", "accepted at"
"""How the notes begin that say why a row counts again."""


def resolve_baseline(baselines: Iterable[Baseline], name: str, *, now: str) -> Baseline | None:
    """The baseline of this name, None where there is none. Raises SelectionError for one past its end: it may hide anything by now."""
    found = next((baseline for baseline in baselines if baseline.name == name), None)
    if found is not None and found.expires_at is not None and found.expires_at <= now:
        raise SelectionError(
            f"the baseline {name!r} ended on {found.expires_at}. Set it anew: bench baseline set {name} RUN --reason TEXT"
        )
    return found


def acceptance_of(verdict: Verdict, *, author: str, reason: str, now: str, expires_at: str) -> Acceptance:
    """The acceptance of a verdict as it is. Raises SelectionError for one that fails no job, or without author, reason or a later end."""
    from bench.store import Acceptance

    if verdict.word not in (Word.WORSE, Word.MISSING):
        raise SelectionError(f"the row is {verdict.word}: only what is worse or missing can be accepted")
    if not author.strip() or not reason.strip():
        raise SelectionError("an acceptance needs an author and a reason")
    if expires_at <= now:
        raise SelectionError(f"an acceptance that ends on {expires_at} has ended already")
    ratio = verdict.ratio.value if verdict.ratio is not None and verdict.kind is Kind.VALUE else None
    return Acceptance(verdict.series.key, str(verdict.word), ratio, author, reason, now, expires_at)


def apply_acceptances(verdicts: Iterable[Verdict], acceptances: Sequence[Acceptance], *, now: str) -> tuple[Verdict, ...]:
    """The verdicts, with those that are covered counting no more, and those that are not any longer saying so."""
    by_series: dict[str, list[Acceptance]] = {}
    for acceptance in acceptances:
        by_series.setdefault(acceptance.series_key, []).append(acceptance)
    return tuple(_applied(verdict, by_series, now) for verdict in verdicts)


def _applied(verdict: Verdict, by_series: dict[str, list[Acceptance]], now: str) -> Verdict:
    if verdict.word not in (Word.WORSE, Word.MISSING) or not by_series:
        return verdict
    known = [entry for entry in by_series.get(verdict.series.key, ()) if entry.word == verdict.word]
    for entry in sorted(known, key=lambda entry: entry.expires_at, reverse=True):
        who = f"by {entry.author} on {entry.accepted_at[:10]}: {entry.reason}"
        if entry.expires_at <= now:
            return replace(verdict, notes=(*verdict.notes, f"{ENDED} {entry.expires_at[:10]}, which is over ({who})"))
        if _covers(entry, verdict):
            return replace(verdict, counts=False, accepted=f"accepted until {entry.expires_at[:10]} {who}")
        further = f"{EXCEEDED} {entry.ratio:.3f}×, and worse than that now ({who})" if entry.ratio is not None else who
        verdict = replace(verdict, notes=(*verdict.notes, further))
    return verdict


def _covers(entry: Acceptance, verdict: Verdict) -> bool:
    if entry.ratio is None or verdict.ratio is None:
        return entry.ratio is None and verdict.ratio is None
    return verdict.ratio.value <= entry.ratio * (1 + MARGIN)
