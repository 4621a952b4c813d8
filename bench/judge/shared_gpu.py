"""Rows whose GPU others computed on meanwhile: their times answer nothing, and what is counted of their memory holds.

A process that only holds memory, such as an idle notebook, disturbs no time. One of which the name was also busy on the CPU computed; and
where one of a run's rows had such a neighbour, whatever else was on the GPU beside other rows of that run is taken to have computed too,
since a process that ended within a trial is not seen to have been busy. Where at least half of a case's trials were disturbed so, none of
its times is used; else those of the others are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.machine.named_processes import BUSY, ON_GPU, UNKNOWN, process_names
from bench.metrics import SHOWS_SPEED
from bench.records import Json, Result, Run, Status

if TYPE_CHECKING:
    from sqlalchemy import Connection

DEVICE_USED = "device_used_bytes"
COMPILING = frozenset({"compile_cold_s", "compile_warm_s"})
"""Mostly the host's work, so pages state it all the same; no verdict rests on it, since what is tuned for a kernel is timed on the GPU."""
ENERGY = frozenset({"energy_j", "energy_per_token_j"})
ALONE_ONLY = SHOWS_SPEED | COMPILING | ENERGY | {"communication_s", "exposed_communication_share"}
"""What says nothing of a subject beside which others computed."""

Conditions = Mapping[str, Json]


def on_its_gpu(conditions: Conditions) -> tuple[str, ...]:
    """The names of other processes that had the GPU open for computing while a row was measured."""
    return process_names(conditions.get(ON_GPU))


def computed_beside(conditions: Conditions) -> bool:
    """Whether one of them was busy."""
    others = set(on_its_gpu(conditions))
    names = set(process_names(conditions.get(BUSY)))
    return bool(names) and bool(others & (names | {UNKNOWN}))


def tells_growth(result: Result, samples: Sequence[float]) -> bool:
    """Whether the growth of the device's used memory is this row's own: others take and give back meanwhile, down to below nothing."""
    return not on_its_gpu(result.conditions) and min(samples) >= 0


def disturbed(rows: Mapping[str, Conditions]) -> frozenset[str]:
    """Of the rows of one run, by id, those beside which others computed."""
    if not any(map(computed_beside, rows.values())):
        return frozenset()
    return frozenset(ident for ident, conditions in rows.items() if on_its_gpu(conditions))


def untimed(trials: Sequence[str], among: Collection[str]) -> frozenset[str]:
    """Of one case's trials that are ok, by id, those of which no time is used; `among` are the disturbed rows of its run."""
    own = frozenset(ident for ident in trials if ident in among)
    return frozenset(trials) if own and 2 * len(own) >= len(trials) else own


def why_no_time(touched: int, of: int) -> str:
    """In words, for so many disturbed ones of a case's trials that are ok."""
    return f"other processes computed on its GPU in {touched} of {of} trials"


@dataclass(frozen=True, slots=True)
class Beside:
    """The rows of some runs, by id, that others had the GPU open beside."""

    present: frozenset[str] = frozenset()
    """All of them: the growth of the device's used memory is not theirs alone."""
    disturbed: frozenset[str] = frozenset()
    """Those beside which others computed."""
    untimed: frozenset[str] = frozenset()
    """Rows of which nothing in `ALONE_ONLY` is used."""

    def takes(self, ident: str, metric: str, value: float | None) -> bool:
        """Whether this number of a row is not to be used; `value` is its least, where that is known."""
        if metric == DEVICE_USED:
            return ident in self.present or (value is not None and value < 0)
        return ident in self.untimed and metric in ALONE_ONLY


def beside_of(results: Iterable[Result]) -> Beside:
    """The same of records, which must be all that there are of their runs."""
    by_run: dict[str, dict[str, Conditions]] = {}
    trials: dict[tuple[str, str, str], list[str]] = {}
    for row in results:
        by_run.setdefault(row.run_id, {})[row.id] = row.conditions
        if row.status is Status.OK and row.excluded_reason is None:
            trials.setdefault((row.run_id, row.case.key, row.trial.arm), []).append(row.id)
    return _beside(by_run, {run_id: disturbed(rows) for run_id, rows in by_run.items()}, trials)


def _beside(
    by_run: Mapping[str, Mapping[str, Conditions]],
    touched: Mapping[str, frozenset[str]],
    trials: Mapping[tuple[str, str, str], Sequence[str]],
) -> Beside:
    return Beside(
        frozenset(ident for rows in by_run.values() for ident, conditions in rows.items() if on_its_gpu(conditions)),
        frozenset().union(*touched.values()),
        frozenset().union(*(untimed(own, touched[run_id]) for (run_id, *_), own in trials.items())),
    )


def load_beside(connection: Connection, runs: Iterable[Run]) -> Beside:
    """What is stored of that. Runs on a CPU are not asked for."""
    from sqlalchemy import Text, select, type_coerce

    from bench.store import queries
    from bench.store.models import ResultRow

    told = type_coerce(ResultRow.conditions, Text)
    beside = select(ResultRow.run_id, ResultRow.id, ResultRow.conditions).where(told.like(f'%"{ON_GPU}":["%'))
    counted = select(ResultRow.run_id, ResultRow.id, ResultRow.case_key, ResultRow.arm).where(
        ResultRow.status == Status.OK.value, ResultRow.excluded_reason.is_(None)
    )
    by_run: dict[str, dict[str, Conditions]] = {}
    trials: dict[tuple[str, str, str], list[str]] = {}
    for chunk in queries.chunks(run.id for run in runs if run.device != "cpu"):
        for row in connection.execute(beside.where(ResultRow.run_id.in_(chunk))):
            by_run.setdefault(row.run_id, {})[row.id] = json.loads(row.conditions)
    touched = {run_id: found for run_id, rows in by_run.items() if (found := disturbed(rows))}
    for chunk in queries.chunks(touched):
        for run_id, ident, case_key, arm in connection.execute(counted.where(ResultRow.run_id.in_(chunk))):
            trials.setdefault((run_id, case_key, arm), []).append(ident)
    return _beside(by_run, touched, trials)
