"""Why numbers of trials are not used that were measured while others were on their GPU, in words for verdicts and banners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.judge.evidence import Evidence, TrialRow
from bench.judge.shared_gpu import DEVICE_USED, why_no_time
from bench.judge.thresholds import RULES
from bench.records import Status

COMPILE = "compile_cold_s"


def why_left_out(rows: Sequence[TrialRow], metric: str) -> str | None:
    """Of the trials of one case; None where all that have this metric are used."""
    without = sum(metric in row.left_out for row in rows)
    if not without:
        return None
    measured = [row for row in rows if row.status is Status.OK]
    if metric == DEVICE_USED:
        return f"others had memory of its GPU in {without} of {len(measured)} trials"
    return why_no_time(sum(row.disturbed for row in measured), len(measured))


def of_sides(first: Sequence[TrialRow], second: Sequence[TrialRow], metric: str) -> tuple[str, ...]:
    """The same for each side of which numbers are left out."""
    whys = ("the first side", why_left_out(first, metric)), ("the second side", why_left_out(second, metric))
    return tuple(f"{side}: {why}" for side, why in whys if why)


def disturbed_words(evidence: Evidence) -> str | None:
    """What to say of all trials beside which others computed; None without one."""
    measured = [row for row in evidence.trials if row.status is Status.OK]
    touched = sum(row.disturbed for row in measured)
    return f"other processes computed on the GPU in {touched} of {len(measured)} trials" if touched else None


def compiled_nothing(rows: Iterable[TrialRow]) -> bool:
    """Whether first calls were a matter of milliseconds, be they left out or not."""
    found = [numbers.get(COMPILE) for row in rows for numbers in (row.medians, row.left_out)]
    return max((value for value in found if value is not None), default=0.0) < RULES[COMPILE].amount
