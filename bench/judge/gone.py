"""Finds the cases that a night lacks though those before it had them: missing, unless nobody asked for them or the run stopped before.

Like whatever stopped running, such a case is told night after night until it is back or accepted, as long as a night that had it is looked
at. One of an earlier version of a workload that is there is not missing.
"""

from __future__ import annotations

from bench.judge.compare import STATUS, identity, same_question
from bench.judge.evidence import Evidence, TrialRow
from bench.judge.verdict import Kind, Series, SideReading, Verdict, Word
from bench.records import RunState, Status

EXPECTED_IN = 5
"""A case that half of so many nights had, up to its last one, is expected; of one that nobody asks for any more it is told as long."""


def gone(before: Evidence, tonight: Evidence) -> list[Verdict]:
    """The verdicts on what is missing, in the order of keys. `before` holds the nights before, oldest first."""
    place = {run.id: position for position, run in enumerate(before.runs)}
    had: dict[tuple[str, str], dict[int, TrialRow]] = {}
    for row in before.trials:
        if row.status is Status.OK:
            had.setdefault((row.case_key, row.arm), {})[place[row.run_id]] = row
    here = {(row.case_key, row.arm) for row in tonight.trials}
    versions = {identity(tonight.cases[case_key], arm) for case_key, arm in here}
    whole = all(run.state is RunState.FINISHED for run in tonight.runs)
    found = []
    for key in sorted(had.keys() - here):
        last = max(had[key])
        looked_at = range(max(0, last + 1 - EXPECTED_IN), last + 1)
        nights = [before.runs[position] for position in looked_at if position in had[key]]
        if 2 * len(nights) < len(looked_at) or before.is_canary(key[0]) or identity(before.cases[key[0]], key[1]) in versions:
            continue
        # Any of them, since the last one may have been somebody's look at a few rows.
        asked = any(same_question([run], tonight.runs) for run in nights)
        if not asked and len(before.runs) - last > EXPECTED_IN:
            continue
        row = had[key][last]
        series = Series(before.cases[key[0]], key[0], STATUS, row.hard_hash, row.method_version, key[1])
        reason = f"it ran on {len(nights)} of {len(looked_at)} nights until {before.runs[last].started_at[:10]}"
        why = tonight.set_aside.get(key)
        if why is not None:
            reason += f"; tonight's rows of it are excluded: {why}"
        elif not whole:
            reason += "; the run stopped before it"
        elif not asked:
            reason += "; tonight was not asked for it: another suite, profile or filter"
        sides = SideReading(0, None, "ok"), SideReading(0, None, "no rows")
        found.append(Verdict(series, Word.MISSING, Kind.STATUS, reason, *sides, counts=whole and asked and why is None))
    return found
