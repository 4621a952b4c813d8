"""Goes on with a run that was interrupted, killed or out of budget: the same plan, without what is stored already."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import DeviceError, SelectionError
from bench.machine import Device, environment, find_device, harness_version, revision
from bench.records import Result, Run, Trial, TrialKey
from bench.run.execute import Progress, RunSummary, execute, silent
from bench.run.options import RunOptions
from bench.run.plan import Plan, make_plan
from bench.run.preflight import PREFLIGHT

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.store import Store
    from bench.suite import Suite


def resume(
    text: str,
    store: Store,
    *,
    device: str | None = None,
    budget_s: float | None = None,
    wait_for_lock: bool = True,
    progress: Callable[[Progress], None] = silent,
    clock: Callable[[], float] = time.monotonic,
) -> RunSummary:
    """Measures what the run `text` (id, prefix, label or `latest`) still lacks; no trial gets a second row.

    A block that was begun on another device starts anew: subjects of a block are compared with each other, so they must have run on
    one device. Its old rows are excluded with the reason. Raises SelectionError where suite, workloads or what is under test have
    changed since.
    """
    from bench.catalogue import load_catalogue
    from bench.suite import expand, parse_filters, suite_from_data

    run = store.find_run(text)
    options = dataclasses.replace(RunOptions.from_data(run.options), seed=run.seed, budget_s=budget_s, wait_for_lock=wait_for_lock)
    catalogue = load_catalogue([Path(path) for path in options.plugins])
    suite = suite_from_data(run.suite_data, catalogue)
    chosen = find_device(device or options.device)
    if chosen.kind != run.device:
        raise DeviceError(f"run {run.id} measures on {run.device}, but {device or options.device} is {chosen.kind} now")
    expansion = expand(suite, catalogue, device=chosen.kind, filters=parse_filters(options.filters))
    plan = make_plan(suite, expansion, options, store=store, catalogue=catalogue)
    return _go_on(run, plan, suite, store, chosen, catalogue, options, progress, clock)


def _go_on(
    run: Run,
    plan: Plan,
    suite: Suite,
    store: Store,
    device: Device,
    catalogue: Catalogue,
    options: RunOptions,
    progress: Callable[[Progress], None],
    clock: Callable[[], float],
) -> RunSummary:
    _demand_unchanged(run, suite, options)

    def replan(plan: Plan) -> Plan:
        """Under the locks: another process may have gone on with this run while we waited for it."""
        rows = store.results([run.id], include_excluded=True)
        strangers = {row.case.key for row in rows} - {case.key for case in plan.cases}
        if strangers:
            raise SelectionError(
                f"run {run.id} has rows of cases that its suite no longer gives; a workload has changed: start a new run"
            )
        plan, replaced = _start_anew(plan, rows, store.done(run.id), _place_of(device, suite))
        for row in replaced:
            store.exclude(row.id, f"its block was begun on another device and measured anew on {device.uuid or device.name}")
        return plan

    return execute(plan, suite, store, device, catalogue, options, progress=progress, clock=clock, resumed=run, replan=replan)


def _demand_unchanged(run: Run, suite: Suite, options: RunOptions) -> None:
    ours = harness_version()
    if run.harness_version != ours:
        raise SelectionError(f"run {run.id} was begun by version {run.harness_version}, this is {ours}: start a new run")
    now = revision(suite.under_test, plugins=[Path(path) for path in options.plugins], root=options.suite_path)
    if now != run.revision:
        changed = ", ".join(item.name for item in now if item not in run.revision) or "what is under test"
        raise SelectionError(f"{changed} has changed since run {run.id} began; one run has one revision: start a new run")


def _place_of(device: Device, suite: Suite) -> Callable[[Result], bool]:
    """Whether a row was measured where we are: the same hard environment, and the same GPU of its kind."""

    @cache
    def hard_hash(world_size: int) -> str:
        return environment(device, threads=suite.threads, world_size=world_size).hard_hash

    def here(row: Result) -> bool:
        uuid = row.conditions.get("gpu_uuid")
        # A crashed trial may lack the conditions that name the GPU; its environment still tells the kind.
        return row.environment.hard_hash == hard_hash(row.case.world_size) and uuid in (None, device.uuid)

    return here


def _start_anew(
    plan: Plan, rows: Iterable[Result], done: Iterable[TrialKey], here: Callable[[Result], bool]
) -> tuple[Plan, list[Result]]:
    """The plan with a higher attempt for unfinished blocks that another device began, and the rows that this replaces."""
    finished = set(done)
    by_point: dict[str, list[Result]] = {}
    for row in rows:
        by_point.setdefault(row.case.point_key, []).append(row)
    trials: list[Trial] = []
    replaced: list[Result] = []
    for block in plan.blocks:
        old = by_point.get(block[0].case.point_key, [])
        attempt = max((row.trial.attempt for row in old), default=0)
        if old and all(row.excluded_reason for row in old if row.trial.attempt == attempt):
            attempt += 1  # it was to be started anew, and whoever was about to do so was stopped before the first row
        block = tuple(dataclasses.replace(trial, attempt=attempt) for trial in block)
        unfinished = any(trial.key not in finished for trial in block)
        # Rows that needed no process name no device, and hold anywhere.
        elsewhere = [row for row in old if row.phase != PREFLIGHT and not row.excluded_reason and not here(row)]
        if unfinished and elsewhere:
            replaced += [row for row in old if not row.excluded_reason]
            block = tuple(dataclasses.replace(trial, attempt=attempt + 1) for trial in block)
        trials += block
    return dataclasses.replace(plan, trials=tuple(trials)), replaced
