"""Finds the runs that a word of the command line means: a baseline, an id, a label, `latest`, a commit or `package==version`.

A side is one run, or the shards of one. Of several runs that answer to a revision the newest finished one is meant, of the suite of the
other side where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from bench.errors import SelectionError
from bench.judge.acceptances import resolve_baseline
from bench.judge.evidence import Evidence
from bench.records import EXTERNAL, FIXED_AXES, IN_TURN, NIGHTLY, RERUN, Case, Run, RunState, fingerprint

if TYPE_CHECKING:
    from bench.store import Store
    from bench.suite import Filter

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
ASIDE = (RERUN, *IN_TURN, EXTERNAL)
"""Reasons of runs that look at some rows again, or at what is in no suite."""
HISTORY_RUNS = 8
"""How many earlier runs of a suite are asked about the spread of its series."""


def find_sides(store: Store, first: str, second: str, *, now: str) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """The runs of both sides. Raises SelectionError where a word means nothing, a baseline has ended, or both mean the same run."""
    before, after = (_candidates(store, text, now) for text in (first, second))
    chosen = after[0]
    alike = [side for side in before if side[0].suite == chosen[0].suite and side[0].id != chosen[0].id]
    other = (alike or before)[0]
    if {run.id for run in other} == {run.id for run in chosen}:
        raise SelectionError(f"{first!r} and {second!r} are the same run {chosen[0].id}: a run is compared with another one")
    return other, chosen


def find_side(store: Store, text: str, *, now: str) -> tuple[Run, ...]:
    """The runs that one word means. Raises SelectionError where it means nothing, or a baseline has ended."""
    return _candidates(store, text, now)[0]


def is_night(run: Run) -> bool:
    """Whether a run has all the rows that it was asked for: it came to its end, or it is a night that measures as much as it has time for.

    What only looked at some rows again is none.
    """
    return run.reason not in ASIDE and (run.state is RunState.FINISHED or (run.state is RunState.BUDGET and run.reason == NIGHTLY))


def nights_before(store: Store, tonight: Sequence[Run], *, most: int) -> list[Run]:
    """The last nights of tonight's suite from before it, oldest first."""
    start, ours = min(run.started_at for run in tonight), {run.id for run in tonight}
    found = [run for run in store.runs(suite=tonight[0].suite) if run.id not in ours and run.started_at < start and is_night(run)]
    return found[:most][::-1]


def nights_like(store: Store, nights: Sequence[Run], tonight: Sequence[Run], *, most: int) -> list[Run]:
    """Of `nights`, oldest first, the newest `most`, and the newest `most` with a row on hardware of tonight.

    Where each night runs on whatever CPU a runner happens to have, the last nights alone would leave a model too few of its own to learn.
    """
    recent = list(nights[-most:])
    mine = {hard_hash for _, hard_hash in hardware_of(store, tonight)}
    if {hard_hash for _, hard_hash in hardware_of(store, recent)} <= mine:
        return recent
    alike = {run_id for run_id, hard_hash in hardware_of(store, nights) if hard_hash in mine}
    wanted = {run.id for run in (*recent, *[run for run in nights if run.id in alike][-most:])}
    return [run for run in nights if run.id in wanted]


def hardware_of(store: Store, runs: Sequence[Run]) -> set[tuple[str, str]]:
    """Pairs of a run and the hash of hard facts of some row of it."""
    from sqlalchemy import select

    from bench.store import queries
    from bench.store.models import EnvironmentRow, ResultRow

    statement = select(ResultRow.run_id, EnvironmentRow.hard_hash).distinct()
    statement = statement.join(EnvironmentRow, EnvironmentRow.id == ResultRow.environment_id)
    with store.reading() as connection:
        return {
            (row.run_id, row.hard_hash)
            for chunk in queries.chunks(run.id for run in runs)
            for row in connection.execute(statement.where(ResultRow.run_id.in_(chunk)))
        }


def _candidates(store: Store, text: str, now: str) -> list[tuple[Run, ...]]:
    """The sides that `text` may mean, the likeliest first; never empty, and never audits or runs of several versions."""
    found = _named(store, text, now)
    measured = [side for side in found if all(run.reason != EXTERNAL for run in side)]
    if not measured:
        raise SelectionError(
            f"run {found[0][0].id} is an audit of somebody's own script, which is not compared with what suites measured: "
            "bench audit --compare A B holds two audits against each other"
        )
    whole = [side for side in measured if all(run.reason not in IN_TURN for run in side)]
    if not whole:
        run = measured[0][0]
        raise SelectionError(
            f"run {run.id} measured several versions of some rows in turn ({run.reason}), so it is no side of a comparison: what came of "
            f"it is in what asked for it. bench show {run.id[:13]} has its rows"
        )
    return whole


def _named(store: Store, text: str, now: str) -> list[tuple[Run, ...]]:
    baseline = resolve_baseline(store.baselines(), text, now=now)
    if baseline is not None and baseline.run_id is not None:
        return [(store.find_run(baseline.run_id),)]
    runs = store.runs()
    labelled = [run for run in runs if run.label is not None and run.label == text]
    if len(labelled) > 1 and _are_shards(labelled):
        return [tuple(sorted(labelled, key=lambda run: run.id))]
    try:
        return [(store.find_run(text),)]
    except SelectionError as none_or_several:
        of_revision: list[tuple[Run, ...]] = [(run,) for run in runs if _has_revision(run, text)]
        if labelled or not of_revision:
            raise SelectionError(
                f"{none_or_several}. A commit or package==version that was under test is understood as well"
            ) from None
        finished = [side for side in of_revision if side[0].state is RunState.FINISHED]
        return finished or of_revision


def _are_shards(runs: Sequence[Run]) -> bool:
    """Whether runs are different parts of one: the same but for their shard."""
    shards = [run.options.get("shard") for run in runs]
    without = {
        fingerprint([run.suite_data, {**run.options, "shard": None, "seed": None, "device": None}, run.device]) for run in runs
    }
    return None not in shards and len({str(shard) for shard in shards}) == len(runs) and len(without) == 1


def _has_revision(run: Run, text: str) -> bool:
    name, equals, version = text.partition("==")
    if equals:
        return any(item.name == name and item.version == version for item in run.revision)
    if not _COMMIT.fullmatch(text):
        return False
    return any(item.commit is not None and item.commit.startswith(text) for item in run.revision)


class StillGoing(SelectionError):
    """A run has no end yet, so that nothing can be said about what it lacks."""


def demand_ended(runs: Sequence[Run]) -> None:
    """Raises StillGoing for a run that is still going, or whose process died without a word."""
    for run in runs:
        if run.state is RunState.RUNNING:
            raise StillGoing(
                f"run {run.id} is still going, or its process died. Wait for its end, or go on with it: bench run --resume {run.id}"
            )


def earlier_runs(store: Store, first: Sequence[Run], second: Sequence[Run]) -> list[Run]:
    """Finished runs of the second side's suite from before it, the newest ones, neither side among them."""
    sides = {run.id for run in (*first, *second)}
    start = min(run.started_at for run in second)
    found = [
        run
        for run in store.runs(suite=second[0].suite)
        if run.id not in sides and run.state is RunState.FINISHED and run.started_at < start and run.reason not in ASIDE
    ]
    return found[:HISTORY_RUNS]


def filtered(evidence: Evidence, filters: Sequence[Filter]) -> Evidence:
    """The rows for which every filter holds."""
    kept = {key for key, case in evidence.cases.items() if holds(case, filters)}
    trials = tuple(row for row in evidence.trials if row.case_key in kept or evidence.is_canary(row.case_key))
    return replace(evidence, trials=trials)


def demand_axes(cases: Sequence[Case], filters: Sequence[Filter]) -> None:
    """Raises SelectionError where a filter names an axis that no case has."""
    known = {"workload", *FIXED_AXES, *(name for case in cases for name in (*case.params, *case.subject))}
    for wanted in filters:
        if wanted.axis not in known:
            near = get_close_matches(wanted.axis, sorted(known), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise SelectionError(f"no row has the axis {wanted.axis!r}{hint}. There are: {', '.join(sorted(known))}")


def holds(case: Case, filters: Sequence[Filter]) -> bool:
    """Whether every filter holds for a case."""
    return all(wanted.holds(case) for wanted in filters)
