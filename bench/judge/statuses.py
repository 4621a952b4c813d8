"""Judges how trials ended, before any number is looked at: what stopped running is worse, whatever its time was.

Wrong numbers outrank all else. A side that is `invalid` throughout says nothing about the subject. A side that fails in some trials
where the other never does is worse: a crash is no noise. The reverse is judged by value, since a few clean trials may be luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.judge.verdict import Word
from bench.records import Status

Counts = Mapping[Status, int]
"""Trials by how they ended; none of a status that did not occur."""

BREAKS = (Status.INCORRECT, Status.OOM, Status.FAILED, Status.CRASHED, Status.TIMEOUT)
"""Ends that a subject which can do the case does not have."""


@dataclass(frozen=True, slots=True)
class StatusFinding:
    """A verdict by status, with its reason."""

    word: Word
    reason: str


def outcome(counts: Counts) -> str:
    """`5 ok, 1 oom`, in the order of the list of statuses."""
    return ", ".join(f"{counts[status]} {status}" for status in Status if counts.get(status)) or "no rows"


def leading(counts: Counts) -> Status:
    """`incorrect` if any trial was, else `ok` if any was, else the most frequent."""
    for decisive in (Status.INCORRECT, Status.OK):
        if counts.get(decisive):
            return decisive
    order = list(Status)
    return min(counts, key=lambda status: (-counts[status], order.index(status)))


def judge_statuses(first: Counts, second: Counts) -> StatusFinding | None:
    """The verdict where the ends of trials decide it; None where both sides have numbers to compare. Both sides have rows."""
    before, after = leading(first), leading(second)
    only_invalid = [set(counts) == {Status.INVALID} for counts in (first, second)]
    if any(only_invalid):
        which = "both sides are" if all(only_invalid) else f"the {'first' if only_invalid[0] else 'second'} side is"
        return StatusFinding(Word.INVALID, f"{which} invalid: measured under conditions that forbid using it")
    if Status.INCORRECT in (before, after):
        return _wrong_numbers(before, after)
    if Status.OK not in (before, after):
        how = f"{after} on both sides" if before is after else f"{after}, before {before}"
        return StatusFinding(Word.SAME, f"ran on neither side: {how}")
    if after is not Status.OK:
        return StatusFinding(Word.WORSE, f"it ran, and no longer does: {outcome(second)}")
    if before is not Status.OK:
        return StatusFinding(Word.BETTER, f"it did not run ({outcome(first)}), and does now")
    broken = {status: second[status] for status in BREAKS if second.get(status)}
    if broken and not any(first.get(status) for status in BREAKS):
        return StatusFinding(Word.WORSE, f"{outcome(broken)} of {sum(second.values())} trials; before all ran")
    return None


def _wrong_numbers(before: Status, after: Status) -> StatusFinding:
    if before is after:
        return StatusFinding(Word.SAME, "wrong numbers on both sides, which have no time")
    if after is Status.INCORRECT:
        return StatusFinding(Word.WORSE, f"its numbers are wrong now (before: {before})")
    if after is Status.OK:
        return StatusFinding(Word.BETTER, "its numbers were wrong, and are right now")
    return StatusFinding(Word.SAME, f"ran on neither side: {after}, before wrong numbers")
