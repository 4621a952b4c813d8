"""What a maintainer has to hear of a night though nothing is worse, each once: on the morning on which it is new.

The judgement itself says the same every night, in its rows and banners. A night that was silent about it would pass for one as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.evidence import Evidence
from bench.judge.left_out import disturbed_words
from bench.judge.thresholds import TIME
from bench.judge.totals import MASS_LEAST, MASS_SHARE
from bench.judge.verdict import Kind, Verdict, Word
from bench.records import Run, RunState, Status
from bench.stats import median

FACTS_SHOWN = 3


def other_harness(first: Sequence[Run], second: Sequence[Run]) -> str | None:
    """What to say where two sides were measured by other versions of bench; None where they were not, or where a side does not know."""
    versions = [sorted({run.harness_version for run in side if run.harness_version}) for side in (first, second)]
    if not all(versions) or versions[0] == versions[1]:
        return None
    told = " and ".join(", ".join(side) for side in versions)
    return f"the sides were measured by other versions of bench ({told}): a difference may be its doing"


def of_night(before: Evidence, tonight: Evidence, last: Run, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """The news of a night.

    Args:
        last: the newest night before it on hardware of tonight.
        verdicts: on all rows of tonight, and on those that are not there.
    """
    return tuple(
        filter(
            None,
            (
                upgraded(last, tonight.runs),
                _not_asked(before, tonight, last, verdicts),
                _invalid(before, verdicts),
                _untimed(before, tonight, verdicts),
            ),
        )
    )


def of_moved_machine(
    looked_at: Sequence[tuple[Verdict, Verdict]], screened: int, nights: Sequence[Run], facts: Sequence[str]
) -> str | None:
    """What to say of times that are beyond the limit of the nights before, and as slow in the last good version that was measured again.

    A few of many are so by chance every night: that is no news, unless something else has changed too.

    Args:
        screened: how many times were held against the nights before.
        looked_at: each suspect as the screen left it and as it is after the second look.
        nights: those before tonight; what was as slow when it was last measured is no news.
        facts: what of the environment is other than in the last night, in words.
    """
    moved = [
        suspect
        for suspect, now in looked_at
        if now.confirmed_in is not None and now.word is Word.SAME and suspect.ratio is not None and suspect.ratio.value > 1
    ]
    if not moved or not (facts or len(moved) >= max(MASS_LEAST, MASS_SHARE * screened)):
        return None
    began = {run.id: run.started_at for run in nights}
    if not any(suspect.last_judged is not None and began.get(suspect.good_run or "") == suspect.last_judged for suspect in moved):
        return None
    by = median([suspect.ratio.value for suspect in moved if suspect.ratio is not None])
    many = f"{len(moved)} numbers are {by:.2f}×" if len(moved) > 1 else f"1 number is {by:.2f}×"
    cause = f"the machine or {', '.join(facts[:FACTS_SHOWN])}" if facts else "the machine, or how it is measured"
    return f"{many} the nights before, and the same in the last good version, measured again beside it: not what is under test, but {cause}"


def upgraded(last: Run, tonight: Sequence[Run]) -> str | None:
    """What to say of another release of bench. Where it lies in a repository each commit is a version too: that is no news."""
    releases = [_release(last.harness_version), *(_release(run.harness_version) for run in tonight)]
    if "" in releases or len(set(releases)) == 1:
        return None
    return f"this night was measured by bench {releases[-1]}, the last one by {releases[0]}: a difference may be its doing"


def _release(version: str) -> str:
    return version.partition("+")[0]


def _not_asked(before: Evidence, tonight: Evidence, last: Run, verdicts: Sequence[Verdict]) -> str | None:
    if any(run.state is not RunState.FINISHED for run in tonight.runs):
        return None  # its rows may be missing for that: it is told as cut off
    there = {(row.case_key, row.arm) for row in before.trials if row.run_id == last.id}
    gone = sum(
        verdict.word is Word.MISSING and not verdict.counts and (verdict.series.case_key, verdict.series.arm) in there
        for verdict in verdicts
    )
    if not gone:
        return None
    rows = f"{gone} rows of the last night were" if gone > 1 else "1 row of the last night was"
    return f"{rows} not asked for tonight: another suite, profile or filter"


def _invalid(before: Evidence, verdicts: Sequence[Verdict]) -> str | None:
    began = {run.id: run.started_at for run in before.runs}
    ran = {(row.case_key, row.arm, began[row.run_id]) for row in before.trials if row.status is Status.OK}
    spoilt = sum(
        verdict.kind is Kind.STATUS
        and verdict.word is Word.INVALID
        and (verdict.series.case_key, verdict.series.arm, verdict.last_judged) in ran
        for verdict in verdicts
    )
    if not spoilt:
        return None
    rows = f"{spoilt} rows that ran on the night before are" if spoilt > 1 else "1 row that ran on the night before is"
    return f"{rows} invalid, so not judged: measured under conditions that forbid using them (bench show has the reasons)"


def _untimed(before: Evidence, tonight: Evidence, verdicts: Sequence[Verdict]) -> str | None:
    """Of times that are left out, where that is new: the night before had them."""
    words = disturbed_words(tonight)
    if words is None:
        return None
    began = {run.id: run.started_at for run in before.runs}
    timed = {(row.case_key, row.arm, began[row.run_id]) for row in before.trials if TIME in row.medians}
    lost = sum(
        verdict.kind is Kind.VALUE
        and verdict.word is Word.INVALID
        and verdict.series.metric == TIME
        and (verdict.series.case_key, verdict.series.arm, verdict.last_judged) in timed
        for verdict in verdicts
    )
    if not lost:
        return None
    rows = f"{lost} times that the night before had are" if lost > 1 else "1 time that the night before had is"
    return f"{rows} not judged: {words}"
