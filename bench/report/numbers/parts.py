"""Runs that measured parts of one suite, each by filters or shards of its own, told as the one run that they make up.

A suite of many hours is measured over several evenings or on several machines: whoever reads of it asks about the suite. Runs are parts of
one another where they were asked the same, of one revision, on the same hardware, and no case was measured by two of them; what was
measured twice is a repetition, which a reader wants to see apart. Runs without rows, and audits, are parts of nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.records import EXTERNAL, Json, Result, Run, RunState, Scalar
from bench.report.numbers.summary import belongs_to_canary
from bench.report.trust.surroundings import machine

PARTS = "parts"
"""The option of a joined run that has the ids of its parts."""
_OWN = frozenset({"filters", "shard", "device", "gpus", "budget_s", "seed", "wait_for_lock", "suite_folder"})
"""Options in which parts may differ: which cases were picked, and where and when they ran."""


def told_as_one(runs: Sequence[Run], results: Sequence[Result]) -> tuple[list[Run], list[Result]]:
    """The runs and their results, those that are parts of one suite joined; the others, and their order, as they were.

    A joined run has the id of its earliest part, and each result is its. Blocks are counted on from part to part, so that nothing is taken
    for neighbours in time that was not; of a canary, which each part measures, so are the trials. A part that began a point anew
    replaces its own rows alone: the last attempt of each part gets one number.
    """
    rows: dict[str, list[Result]] = {run.id: [] for run in runs}
    for result in results:
        if result.run_id in rows:
            rows[result.run_id].append(result)
    places: dict[str, str] = {}
    groups: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.started_at, run.id)):
        group = next((group for group in groups if _are_parts(group, run, rows)), None)
        if group is None:
            groups.append(group := [])
        group.append(run)
        places[run.id] = group[0].id
    joined = {group[0].id: _joined(group, rows) for group in groups}
    first = list(dict.fromkeys(places[run.id] for run in runs))
    others = [result for result in results if result.run_id not in rows]
    return [joined[ident][0] for ident in first], [*(row for ident in first for row in joined[ident][1]), *others]


def _are_parts(group: Sequence[Run], run: Run, rows: dict[str, list[Result]]) -> bool:
    if run.reason == EXTERNAL or _asked(group[0]) != _asked(run) or _hardware(rows[group[0].id]) != _hardware(rows[run.id]):
        return False
    own = _cases(run, rows[run.id])
    others = [_cases(one, rows[one.id]) for one in group]
    return bool(own) and all(cases and not cases & own for cases in others)


def _asked(run: Run) -> tuple[object, ...]:
    options = {name: value for name, value in run.options.items() if name not in _OWN}
    kind = run.device.partition(":")[0]
    return run.suite, run.suite_data, options, kind, run.revision, run.harness_version, run.label, run.parent_run_id


def _hardware(results: Iterable[Result]) -> set[frozenset[tuple[str, Scalar]]]:
    """What rows were measured on, less how many devices each took."""
    return {machine(row.environment.hard) for row in results}


def _cases(run: Run, results: Iterable[Result]) -> set[str]:
    return {result.trial.case.key for result in results if not belongs_to_canary(run, result.trial.case)}


def _joined(group: Sequence[Run], rows: dict[str, list[Result]]) -> tuple[Run, list[Result]]:
    first = group[0]
    if len(group) == 1:
        return first, rows[first.id]
    found: list[Result] = []
    seen: Counter[tuple[str, str, int]] = Counter()
    last: Counter[tuple[str, str]] = Counter()
    for run in group:
        for result in rows[run.id]:
            place = run.id, result.trial.case.point_key
            last[place] = max(last[place], result.trial.attempt)
    latest: Counter[str] = Counter()
    for (_, point), attempt in last.items():
        latest[point] = max(latest[point], attempt)
    blocks = 0
    for run in group:
        for result in rows[run.id]:
            trial = result.trial
            point = trial.case.point_key
            attempt = trial.attempt + latest[point] - last[run.id, point]
            key = (trial.case.key, trial.arm, attempt)
            index = seen[key] if belongs_to_canary(run, trial.case) else trial.index
            seen[key] += 1
            moved = replace(trial, index=index, block=trial.block + blocks, attempt=attempt)
            found.append(replace(result, run_id=first.id, trial=moved))
        blocks += 1 + max((result.trial.block for result in rows[run.id]), default=0)
    return _as_run(group), found


def _as_run(group: Sequence[Run]) -> Run:
    ends = [run.finished_at for run in group]
    options: dict[str, Json] = {name: value for name, value in group[0].options.items() if name not in ("filters", "shard")}
    return replace(
        group[0],
        options={**options, "filters": _filters(group), "shard": None, PARTS: [run.id for run in group]},
        command="\n".join(dict.fromkeys(run.command for run in group)),
        state=next((run.state for run in group if run.state is not RunState.FINISHED), RunState.FINISHED),
        planned_trials=sum(run.planned_trials for run in group),
        finished_at=None if None in ends else max(filter(None, ends)),
    )


def _filters(group: Sequence[Run]) -> list[Json]:
    """What all parts were picked by: filters that each has, and of one name in which they differ all its values; else nothing, since no
    filters would pick what they hold together."""
    own = [dict(str(text).partition("=")[::2] for text in run.options.get("filters") or ()) for run in group]
    names = list(own[0])
    differ = [name for name in names if len({filters.get(name) for filters in own}) > 1]
    if any(set(filters) != set(names) for filters in own) or len(differ) > 1:
        return []
    return [f"{name}={','.join(dict.fromkeys(value for filters in own for value in filters[name].split(',')))}" for name in names]
