"""What verdicts rest on: of each trial its end and the median of each judged metric, read without samples, logs or records.

Five thousand series are some ten thousands of numbers, so only the columns that a rule looks at are read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.judge.shared_gpu import load_beside
from bench.judge.thresholds import BUSY_SHARE, CYCLES, ERROR_SHARE, RULES, SPEED
from bench.records import Case, Environment, Run, Status
from bench.run.canaries import is_canary

if TYPE_CHECKING:
    from bench.store import Store

READ_METRICS = (*(name for name in RULES if name != ERROR_SHARE), CYCLES)


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial as judging sees it."""

    run_id: str
    case_key: str
    arm: str
    status: Status
    reason: str | None
    environment_id: str
    hard_hash: str
    method_version: int
    gpu: str | None
    """UUID of the physical GPU; None on a CPU, and where the row does not know."""
    medians: Mapping[str, float | None]
    """Metric to the median of its samples; None where that is not a finite number. Nothing of a trial that was not ok, and nothing that is
    left out."""
    command: str
    started_at: str
    crowded: bool = False
    """Whether other processes held the cores meanwhile."""
    probe: bool = False
    """Whether all that was asked is if it fits: there is no time then, and most other numbers are missing."""
    disturbed: bool = False
    """Whether others computed on its GPU meanwhile."""
    left_out: Mapping[str, float | None] = field(default_factory=dict)
    """Metric to median of what answers nothing, since others were on its GPU."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The rows of some runs that count: not excluded, and of the last attempt of their point."""

    runs: tuple[Run, ...]
    trials: tuple[TrialRow, ...] = ()
    cases: Mapping[str, Case] = field(default_factory=dict)
    environments: Mapping[str, Environment] = field(default_factory=dict)
    excluded: int = 0
    """Rows that were set aside."""
    set_aside: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Case key and arm of those that have excluded rows only, to the reason that was given last."""

    @property
    def name(self) -> str:
        """What to call it: the label, else the beginning of the run's id."""
        run = self.runs[0]
        more = f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else ""
        return (run.label or run.id[:13]) + more

    def is_canary(self, case_key: str) -> bool:
        """Whether a case is there only to show the machine."""
        workloads = {run.suite_data.get("workload") for run in self.runs}
        return any(isinstance(name, str) and is_canary(self.cases[case_key], name) for name in workloads)


def asks_what_fits(run: Run) -> bool:
    """Whether its trials are probes. The time of one is that of a single call, by another clock: no other time is held against it."""
    protocol = run.suite_data.get("protocol")
    return isinstance(protocol, Mapping) and protocol.get("probe") is True


def load_evidence(
    store: Store, runs: Sequence[Run], *, metrics: Collection[str] = READ_METRICS, case_key: str | None = None
) -> Evidence:
    """The evidence of `runs`, with these metrics, of all cases or of one; errors against the reference come with all metrics.

    Times of probes are none, and neither are those of rows whose GPU others computed on.
    """
    from sqlalchemy import and_, select, true

    from bench.store import queries
    from bench.store.models import CaseRow, CheckRow, EnvironmentRow, MeasurementRow, ResultRow

    columns = (
        ResultRow.id, ResultRow.run_id, ResultRow.case_key, ResultRow.arm, ResultRow.attempt, ResultRow.status, ResultRow.reason,
        ResultRow.environment_id, EnvironmentRow.hard_hash, ResultRow.method_version, ResultRow.conditions, ResultRow.command,
        ResultRow.started_at, ResultRow.excluded_reason, CaseRow.point_key,
    )  # fmt: skip
    statement = select(*columns).join(EnvironmentRow, EnvironmentRow.id == ResultRow.environment_id)
    statement = statement.join(CaseRow, CaseRow.key == ResultRow.case_key)
    medians: dict[str, dict[str, float | None]] = {}
    found: list[Any] = []
    probing = {run.id for run in runs if asks_what_fits(run)}
    shared = queries.Shared()
    left_out: dict[str, dict[str, float | None]] = {}
    with store.reading() as connection:
        beside = load_beside(connection, runs)
        for chunk in queries.chunks(run.id for run in runs):
            mine = and_(ResultRow.run_id.in_(chunk), true() if case_key is None else ResultRow.case_key == case_key)
            found += connection.execute(statement.where(mine)).all()
            measured = select(MeasurementRow.result_id, MeasurementRow.metric, MeasurementRow.median)
            used = and_(mine, ResultRow.status == Status.OK.value, ResultRow.excluded_reason.is_(None))
            measured = measured.join(ResultRow, ResultRow.id == MeasurementRow.result_id).where(
                used, MeasurementRow.scope == "trial", MeasurementRow.metric.in_(metrics)
            )
            untimed = {row.id for row in found if row.run_id in probing}
            for result_id, metric, middle in connection.execute(measured):
                if metric in SPEED and result_id in untimed:
                    continue
                if beside.takes(result_id, metric, middle):
                    left_out.setdefault(result_id, {})[metric] = middle
                    continue
                medians.setdefault(result_id, {})[metric] = middle
            checked = select(CheckRow.result_id, CheckRow.error, CheckRow.error_limit)
            checked = checked.join(ResultRow, ResultRow.id == CheckRow.result_id).where(
                used, CheckRow.error.is_not(None), CheckRow.error_limit > 0
            )
            for result_id, error, limit in connection.execute(checked) if metrics is READ_METRICS else ():
                if error is not None and limit:
                    own = medians.setdefault(result_id, {})
                    own[ERROR_SHARE] = max(own.get(ERROR_SHARE) or 0.0, error / limit)
        # Here, where a row that does not read is named.
        around = {row.id: _surroundings(row.conditions) for row in found if not row.excluded_reason}
        queries.load_cases(connection, shared, {row.case_key for row in found})
        queries.load_environments(connection, shared, {row.environment_id for row in found})
    last: dict[tuple[str, str], int] = {}
    for row in found:
        point = row.run_id, row.point_key
        last[point] = max(last.get(point, 0), row.attempt)
    counted = [row for row in found if not row.excluded_reason and row.attempt == last[row.run_id, row.point_key]]
    # The order of rows must not matter to a float's last digit.
    counted.sort(key=lambda row: row.id)
    trials = tuple(
        _trial(
            row,
            around[row.id],
            medians.get(row.id, {}),
            left_out.get(row.id, {}),
            probe=row.run_id in probing,
            disturbed=row.id in beside.disturbed,
        )
        for row in counted
    )
    counting = {(row.case_key, row.arm) for row in counted}
    excluded = sorted((row for row in found if row.excluded_reason), key=lambda row: row.id)
    set_aside = {(row.case_key, row.arm): row.excluded_reason for row in excluded if (row.case_key, row.arm) not in counting}
    return Evidence(tuple(runs), trials, shared.cases, shared.environments, len(found) - len(counted), set_aside)


def _trial(
    row: Any,
    around: tuple[str | None, bool],
    medians: Mapping[str, float | None],
    left_out: Mapping[str, float | None],
    *,
    probe: bool,
    disturbed: bool,
) -> TrialRow:
    gpu, crowded = around
    return TrialRow(
        row.run_id, row.case_key, row.arm, Status(row.status), row.reason, row.environment_id, row.hard_hash, row.method_version,
        gpu, medians, row.command, row.started_at, crowded, probe, disturbed,
        left_out,
    )  # fmt: skip


def _surroundings(conditions: str) -> tuple[str | None, bool]:
    """The GPU's UUID, and whether others held the cores; of an imported row neither is known."""
    if "gpu_uuid" not in conditions and "busy_processes" not in conditions:
        return None, False
    found = json.loads(conditions)
    gpu, share = found.get("gpu_uuid"), found.get("machine_busy_share")
    crowded = bool(found.get("busy_processes")) and isinstance(share, int | float) and share >= BUSY_SHARE
    return gpu if isinstance(gpu, str) and gpu else None, crowded
