"""Goes on with a run that was interrupted, killed or out of budget: the same plan, without what is stored already."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import bench
from bench.errors import DeviceError, SelectionError
from bench.machine import Device, environment, find_device, revision
from bench.records import Result, Run, Trial
from bench.run.execute import Progress, RunSummary, TrialKey, execute, silent, trial_key
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
    rows = store.results([run.id], include_excluded=True)
    strangers = {row.case.key for row in rows} - {case.key for case in plan.cases}
    if strangers:
        raise SelectionError(
            f"run {run.id} has rows of cases that its suite no longer gives; a workload has changed: start a new run"
        )
    plan, replaced = _start_anew(plan, rows, store.done(run.id), _place_of(device, suite))
    for row in replaced:
        store.exclude(row.id, f"its block was begun on another device and measured anew on {device.uuid or device.name}")
    return execute(plan, suite, store, device, catalogue, options, progress=progress, clock=clock, resumed=run)


def _demand_unchanged(run: Run, suite: Suite, options: RunOptions) -> None:
    if run.harness_version != bench.__version__:
        raise SelectionError(
            f"run {run.id} was begun by version {run.harness_version}, this is {bench.__version__}: start a new run"
        )
    root = Path(options.suite_file) if options.suite_file else None
    now = revision(suite.under_test, plugins=[Path(path) for path in options.plugins], root=root)
    if now != run.revision:
        changed = ", ".join(item.name for item in now if item not in run.revision) or "what is under test"
        raise SelectionError(f"{changed} has changed since run {run.id} began; one run has one revision: start a new run")


def _place_of(device: Device, suite: Suite) -> Callable[[Result | None], tuple[str, str | None]]:
    """What must agree within a block: the hard environment, and which GPU of its kind."""

    def place(row: Result | None) -> tuple[str, str | None]:
        if row is None:
            return environment(device, threads=suite.threads).hard_hash, device.uuid
        uuid = row.conditions.get("gpu_uuid")
        return row.environment.hard_hash, str(uuid) if uuid is not None else None

    return place


def _start_anew(
    plan: Plan, rows: Iterable[Result], done: Iterable[TrialKey], place: Callable[[Result | None], tuple[str, str | None]]
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
        block = tuple(dataclasses.replace(trial, attempt=attempt) for trial in block)
        unfinished = any(trial_key(trial) not in finished for trial in block)
        # Rows that needed no process name no device, and hold anywhere.
        elsewhere = [row for row in old if row.phase != PREFLIGHT and not row.excluded_reason and not _same(place, row)]
        if unfinished and elsewhere:
            replaced += [row for row in old if not row.excluded_reason]
            block = tuple(dataclasses.replace(trial, attempt=attempt + 1) for trial in block)
        trials += block
    return dataclasses.replace(plan, trials=tuple(trials)), replaced


def _same(place: Callable[[Result | None], tuple[str, str | None]], row: Result) -> bool:
    here, there = place(None), place(row)
    # A crashed trial may lack the conditions that name the GPU; its environment still tells the kind.
    return here[0] == there[0] and (there[1] is None or here[1] == there[1])
