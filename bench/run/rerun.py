"""Measures one stored row again, in a run of its own, so that old and new can be laid side by side."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import DeviceError, SelectionError
from bench.machine import find_device
from bench.metrics import METRICS, SHOWS_SPEED
from bench.records import RERUN, Case, Result, Status
from bench.run.canaries import is_canary
from bench.run.commands import case_filters
from bench.run.execute import execute
from bench.run.options import RunOptions
from bench.run.plan import make_plan
from bench.run.progress import Progress, RunSummary, silent
from bench.run.resume import demand_measured_here
from bench.run.weights import demand_weights
from bench.stats import median

if TYPE_CHECKING:
    from bench.store import Store


@dataclass(frozen=True, slots=True)
class Rerun:
    """Old and new rows of one case. A median is over the trials' medians; a metric that one side lacks is absent there."""

    summary: RunSummary
    old: tuple[Result, ...]
    new: tuple[Result, ...]
    old_medians: Mapping[str, float]
    new_medians: Mapping[str, float]


def trial_medians(rows: Sequence[Result]) -> dict[str, float]:
    """Metric to the median over `ok` rows of each row's median, for what is measured of the subject (not of the harness).

    Without what shows speed where any row is incorrect.
    """
    withheld = SHOWS_SPEED if any(row.status is Status.INCORRECT for row in rows) else frozenset()
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.status is not Status.OK:
            continue
        for measurement in row.measurements:
            known = METRICS.get(measurement.metric)
            if measurement.scope == "trial" and measurement.metric not in withheld and not (known and known.harness):
                found.setdefault(measurement.metric, []).append(median(measurement.samples))
    return {metric: median(values) for metric, values in found.items()}


def rerun(
    text: str,
    store: Store,
    *,
    trials: int | None = None,
    device: str | None = None,
    wait_for_lock: bool = True,
    progress: Callable[[Progress], None] = silent,
    clock: Callable[[], float] = time.monotonic,
) -> Rerun:
    """Measures the case of the result `text` (id or prefix) again, `trials` times (default: as its run did).

    The new run has the old one as its parent. Raises SelectionError where the suite no longer gives that case, and for a canary, which
    no suite gives; SuiteError where the folder of weights is gone or another one.
    """
    from bench.catalogue import load_catalogue
    from bench.suite import expand, parse_filters, suite_from_data

    row = store.find_result(text)
    run = store.find_run(row.run_id)
    demand_measured_here(run, row)
    before = RunOptions.from_data(run.options)
    catalogue = load_catalogue([Path(path) for path in before.plugins])
    suite = suite_from_data(run.suite_data, catalogue)
    if is_canary(row.case, suite.workload):
        raise SelectionError(
            f"result {row.id} is a canary: it shows the machine and is part of no suite. Every run on a GPU measures it anew: {run.command}"
        )
    kind = row.case.device
    told = before.device if before.device != "auto" else kind
    try:
        chosen = find_device(device or told)
    except DeviceError as error:
        if device is not None or told == kind:
            raise
        raise DeviceError(f"{error}. Its run was told --device {told}: say --device {kind} for whichever is here") from error
    if chosen.kind != kind:
        raise DeviceError(f"result {row.id} was measured on {kind}, and {device} is {chosen.kind}")
    # A search gives its probes by value only.
    probe = [f"{suite.search.axis}={row.case.axis_value(suite.search.axis)}"] if suite.search else []
    everything = expand(suite, catalogue, device=chosen.kind, filters=parse_filters([*before.filters, *probe]))
    case = _same_case(row, everything.cases)
    options = dataclasses.replace(
        before,
        filters=case_filters(case, suite),
        trials=trials if trials is not None else before.trials,
        shard=None,
        gpus=None,
        budget_s=None,
        label=None,
        seed=None,
        wait_for_lock=wait_for_lock,
        reason=RERUN,
        parent_run_id=run.id,
        canaries=False,
    )
    expansion = expand(suite, catalogue, device=chosen.kind, filters=parse_filters(options.filters))
    demand_weights(expansion.cases, catalogue, options.weights)
    plan = make_plan(suite, expansion, options, store=store, catalogue=catalogue)
    summary = execute(plan, suite, store, chosen, catalogue, options, progress=progress, clock=clock)
    old = tuple(found for found in store.results([run.id]) if found.case.key == case.key)
    return Rerun(summary, old, summary.results, trial_medians(old), trial_medians(summary.results))


def _same_case(row: Result, cases: Sequence[Case]) -> Case:
    for case in cases:
        if case.key == row.case.key:
            return case
    raise SelectionError(f"the suite of result {row.id} no longer gives this case (a workload has a new version?): start a new run")
