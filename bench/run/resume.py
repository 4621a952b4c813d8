"""Goes on with a run that was interrupted, killed or out of budget: the same plan, without what is stored already."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import DeviceError, SelectionError
from bench.machine import Device, environment, find_device, harness_version, revision
from bench.records import EXTERNAL, IMPORTED, Result, Run, Trial, TrialKey
from bench.run.canaries import canary_arm
from bench.run.execute import execute
from bench.run.options import RunOptions
from bench.run.order import Share
from bench.run.plan import Part, Plan, make_plan
from bench.run.preflight import PREFLIGHT
from bench.run.progress import Progress, RunSummary, silent
from bench.run.search import Group, Searching
from bench.run.weights import demand_weights

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.store import Store
    from bench.suite import Expansion, Suite


@dataclass(frozen=True, slots=True)
class TakenUp:
    """All that is needed to go on with a run, as its row in the database tells it."""

    run: Run
    suite: Suite
    expansion: Expansion
    catalogue: Catalogue
    options: RunOptions
    device: Device

    def plan(self, store: Store | None, share: Share | None = None) -> Plan:
        """Of the whole run, or of what this device has of it; minutes are guessed from earlier results in `store`."""
        part = None if share is None else Part(share, canary_arm(self.device.uuid or self.device.torch_name))
        return make_plan(self.suite, self.expansion, self.options, store=store, catalogue=self.catalogue, part=part)


def take_up(run: Run, *, device: str | None = None, budget_s: float | None = None, wait_for_lock: bool = True) -> TakenUp:
    """Raises SelectionError for an imported run, DeviceError for another kind of device, SuiteError for other weights."""
    from bench.catalogue import load_catalogue
    from bench.suite import expand, parse_filters, suite_from_data

    demand_measured_here(run)
    options = dataclasses.replace(RunOptions.from_data(run.options), seed=run.seed, budget_s=budget_s, wait_for_lock=wait_for_lock)
    catalogue = load_catalogue([Path(path) for path in options.plugins])
    suite = suite_from_data(run.suite_data, catalogue)
    chosen = find_device(device or options.device)
    if chosen.kind != run.device:
        raise DeviceError(f"run {run.id} measures on {run.device}, but {device or options.device} is {chosen.kind} now")
    expansion = expand(suite, catalogue, device=chosen.kind, filters=parse_filters(options.filters))
    demand_weights(expansion.cases, catalogue, options.weights)
    return TakenUp(run, suite, expansion, catalogue, options, chosen)


def resume(
    text: str,
    store: Store,
    *,
    device: str | None = None,
    budget_s: float | None = None,
    wait_for_lock: bool = True,
    share: Share | None = None,
    progress: Callable[[Progress], None] = silent,
    clock: Callable[[], float] = time.monotonic,
) -> RunSummary:
    """Measures what the run `text` (id, prefix, label or `latest`) still lacks; no trial gets a second row.

    A block that was begun on another device starts anew: subjects of a block are compared with each other, so they must have run on
    one device. Its old rows are excluded with the reason. Raises SelectionError where suite, workloads or what is under test have
    changed since, SuiteError where the folder of weights has.

    `share`: only this part of the run, for a process that holds it and has others measured elsewhere; see bench.run.gpus.
    """
    taken = take_up(store.find_run(text), device=device, budget_s=budget_s, wait_for_lock=wait_for_lock)
    plan, whole = taken.plan(store), None
    if share is not None:
        plan, whole = taken.plan(store, share), plan
    return _go_on(
        taken.run, plan, taken.suite, store, taken.device, taken.catalogue, taken.options, progress, clock, whole_run=whole
    )


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
    *,
    whole_run: Plan | None = None,
) -> RunSummary:
    """`whole_run`: where `plan` is a part of it only."""
    demand_unchanged(run, suite, options)

    def replan(plan: Plan) -> Plan:
        """Under the locks: another process may have gone on with this run while we waited for it."""
        rows = store.results([run.id], include_excluded=True, metrics=())
        if _strangers(whole_run or plan, rows):
            raise SelectionError(
                f"run {run.id} has rows of cases that its suite no longer gives; a workload has changed: start a new run"
            )
        plan, replaced = _start_anew(plan, rows, store.done(run.id), _place_of(device, suite))
        for row in replaced:
            store.exclude(row.id, f"its block was begun on another device and measured anew on {device.uuid or device.name}")
        return plan

    as_part = whole_run is not None
    return execute(
        plan, suite, store, device, catalogue, options,
        progress=progress, clock=clock, resumed=run, as_part=as_part, replan=replan,
    )  # fmt: skip


def demand_measured_here(run: Run, row: Result | None = None) -> None:
    """Raises SelectionError for a run that was imported: another tool measured it, or a page tells only what came of it.

    `row`: the one of it that is asked for.
    """
    if run.reason == IMPORTED:
        raise SelectionError(_imported(run, row))
    if run.reason == EXTERNAL:
        raise SelectionError(f"run {run.id} is an audit of somebody's own script: type its command again ({run.command})")
    if "arms" in run.options:
        raise SelectionError(
            f"run {run.id} measured several versions in turn ({run.reason}): bench regress or bench bisect does it anew"
        )


def _imported(run: Run, row: Result | None) -> str:
    """Where it came from. A page tells commands, so there is something to type; of a row its own, where the page tells it."""
    from bench.store.importers.report import is_from_page

    if not is_from_page(run):
        return f"run {run.id} was imported from {run.suite_file}: only what bench measured can be measured again"
    what, command = f"run {run.id}", run.command
    if row is not None:
        what = f"result {row.id}"
        command = command if row.command.startswith("#") else row.command
    return f"{what} came with a report page, which tells medians alone. The command that the page gives for it measures it here: {command}"


def demand_unchanged(run: Run, suite: Suite, options: RunOptions) -> None:
    """Raises SelectionError where the harness or what is under test has changed since the run began."""
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


def _strangers(plan: Plan, rows: Iterable[Result]) -> set[str]:
    """Keys of cases with a row that the plan does not give; later probes of a search go by their first one."""
    given = {case.key for case in plan.cases}
    found = {row.case.key: row.case for row in rows if row.case.key not in given}
    searching = plan.searching
    if searching is None:
        return set(found)
    return {key for key, case in found.items() if not searching.has(case) or searching.first(case).key not in given}


def _start_anew(
    plan: Plan, rows: Sequence[Result], done: Iterable[TrialKey], here: Callable[[Result], bool]
) -> tuple[Plan, list[Result]]:
    """The plan with a higher attempt for unfinished blocks that another device began, and the rows that this replaces.

    A search is finished or begun anew as a whole, with all its subjects: what fits depends on the device.
    """
    finished = set(done)
    # By arm too: each GPU of a run has canaries of its own, and those of another one are none of ours.
    by_place: dict[tuple[str, str], list[Result]] = {}
    for row in rows:
        by_place.setdefault((row.case.point_key, row.trial.arm), []).append(row)
    trials: list[Trial] = []
    replaced: list[Result] = []
    for block in plan.blocks:
        if plan.is_searched(block[0].block):
            trials += block
            continue
        places = dict.fromkeys((trial.case.point_key, trial.arm) for trial in block)
        old = [row for place in places for row in by_place.get(place, [])]
        attempt = _attempt(old)
        block = tuple(dataclasses.replace(trial, attempt=attempt) for trial in block)
        unfinished = any(trial.key not in finished for trial in block)
        if unfinished and _elsewhere(old, here):
            replaced += [row for row in old if not row.excluded_reason]
            block = tuple(dataclasses.replace(trial, attempt=attempt + 1) for trial in block)
        trials += block
    searching, replaced_probes = _search_anew(plan.searching, rows, here)
    return dataclasses.replace(plan, trials=tuple(trials), searching=searching), replaced + replaced_probes


def _search_anew(
    searching: Searching | None, rows: Sequence[Result], here: Callable[[Result], bool]
) -> tuple[Searching | None, list[Result]]:
    if searching is None:
        return None, []
    statuses = {row.trial.key: row.status for row in rows}
    by_group: dict[str, list[Result]] = {}
    for row in rows:
        if searching.has(row.case):
            by_group.setdefault(searching.first(row.case).point_key, []).append(row)
    groups: list[Group] = []
    replaced: list[Result] = []
    for group in searching.groups:
        old = by_group.get(group.cases[0].point_key, [])
        group = dataclasses.replace(group, attempt=_attempt(old))
        blocks = searching.blocks(lambda trial: statuses.get(trial.key), group)
        unfinished = any(trial.key not in statuses for block in blocks for trial in block)
        if unfinished and _elsewhere(old, here):
            replaced += [row for row in old if not row.excluded_reason]
            group = dataclasses.replace(group, attempt=group.attempt + 1)
        groups.append(group)
    return dataclasses.replace(searching, groups=tuple(groups)), replaced


def _attempt(old: Sequence[Result]) -> int:
    """The attempt that the rows of a block belong to now."""
    attempt = max((row.trial.attempt for row in old), default=0)
    if old and all(row.excluded_reason for row in old if row.trial.attempt == attempt):
        attempt += 1  # it was to be started anew, and whoever was about to do so was stopped before the first row
    return attempt


def _elsewhere(old: Sequence[Result], here: Callable[[Result], bool]) -> bool:
    """Whether any row that counts is from another device. Rows that needed no process name no device, and hold anywhere."""
    return any(row.phase != PREFLIGHT and not row.excluded_reason and not here(row) for row in old)
