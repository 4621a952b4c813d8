"""What earlier runs say of the spread of each series: between the processes of one run, and between runs.

Between runs by differences of neighbours and their median, so that a step in the history, which is what one looks for, does not count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.judge.evidence import asks_what_fits
from bench.judge.intervals import pooled_sd
from bench.judge.shared_gpu import load_beside
from bench.judge.thresholds import TIME
from bench.judge.values import Noise
from bench.judge.verdict import series_key
from bench.records import Run, Status
from bench.stats import MAD_TO_SD, median

if TYPE_CHECKING:
    from bench.store import Store

FEWEST_RUNS = 5
"""From which on the spread between runs is told."""


def load_noise(store: Store, runs: Sequence[Run]) -> dict[str, Noise]:
    """By the key of a series of times, what `runs` say. Rows whose GPU others computed on say nothing."""
    from sqlalchemy import select

    from bench.store import queries
    from bench.store.models import EnvironmentRow, MeasurementRow, ResultRow

    columns = ResultRow.case_key, ResultRow.arm, EnvironmentRow.hard_hash, ResultRow.method_version, ResultRow.run_id, ResultRow.id
    statement = select(*columns, MeasurementRow.median).join(ResultRow, ResultRow.id == MeasurementRow.result_id)
    statement = statement.join(EnvironmentRow, EnvironmentRow.id == ResultRow.environment_id).where(
        ResultRow.status == Status.OK.value,
        ResultRow.excluded_reason.is_(None),
        MeasurementRow.metric == TIME,
        MeasurementRow.scope == "trial",
        MeasurementRow.median > 0,
    )
    order = {run.id: (run.started_at, run.id) for run in runs if not asks_what_fits(run)}
    found: dict[tuple[str, str, str, int], dict[str, list[float]]] = {}
    with store.reading() as connection:
        beside = load_beside(connection, runs)
        for chunk in queries.chunks(order):
            for row in connection.execute(statement.where(ResultRow.run_id.in_(chunk))):
                if row.id in beside.untimed:
                    continue
                series = row.case_key, row.arm, row.hard_hash, row.method_version
                found.setdefault(series, {}).setdefault(row.run_id, []).append(row.median)
    return {
        series_key(case_key, arm, TIME, hard_hash, method): noise_of([by_run[run] for run in sorted(by_run, key=order.__getitem__)])
        for (case_key, arm, hard_hash, method), by_run in found.items()
    }


def noise_of(runs: Sequence[Sequence[float]]) -> Noise:
    """The noise in the process medians of some runs, in the order of time. None of them empty."""
    pooled = pooled_sd(runs)
    within, processes = pooled if pooled is not None else (None, 0)
    return Noise(within, processes, between_runs([median(values) for values in runs]), len(runs))


def between_runs(medians: Sequence[float]) -> float | None:
    """Standard deviation between the medians of runs in the order of time, as logarithms; None below five runs."""
    if len(medians) < FEWEST_RUNS:
        return None
    logs = [math.log(value) for value in medians]
    steps = [abs(later - earlier) for earlier, later in itertools.pairwise(logs)]
    return MAD_TO_SD * median(steps) / math.sqrt(2)
