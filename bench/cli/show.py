"""`bench show`: a run as a table, or one result with all that is stored about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from bench.cli.fitting import folded_table, paragraph, terminal_columns
from bench.cli.options import SHORT_ID, database_option, database_words, examples, json_option
from bench.cli.terminal import WIDEST_CELL, counted, note, say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.records import Result, Run
    from bench.store import Store

LOG_LINES_SHOWN = 40
RUNS_SHOWN = 20
ROOM_FOR_IDS = 120
"""A narrower terminal shows the beginnings of ids, where they tell the runs apart: every command takes them."""


@click.command(
    epilog=examples(
        "bench show                # the latest runs",
        "bench show latest         # a table that fits the terminal",
        "bench show latest --wide  # every column of it",
        "bench show 01a22b8c-dfe9  # one result in full; `bench show RUN` names one",
    )
)
@click.argument("what", metavar="[RUN|RESULT]", required=False)
@click.option("--log", "whole_log", is_flag=True, help="Show the whole log of a result, not only its last lines.")
@click.option(
    "--last", type=click.IntRange(min=1), default=RUNS_SHOWN, show_default=True, metavar="N", help="How many of the latest runs to list."
)
@click.option("--wide", is_flag=True, help="Every column of a run's table, also where the terminal is too narrow for all.")
@database_option
@json_option
def show(what: str | None, whole_log: bool, last: int, wide: bool, database: str, as_json: bool) -> int:
    """Show a run (id, the beginning of an id, label, or `latest`), one result (id or the beginning of one), or the latest runs.

    Times are medians over trials with their lowest and highest; memory is in powers of two (1 GiB = 2^30 bytes).
    """
    from bench.errors import SelectionError
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        if what is None:
            _show_runs(store, last, as_json=as_json)
            return 0
        try:
            run = store.find_run(what)
        except SelectionError as no_run:
            try:
                found = store.find_result(what)
            except SelectionError as no_result:
                raise SelectionError(f"{no_run}; {no_result}") from no_result
            _show_result(store, found, whole_log=whole_log, as_json=as_json)
        else:
            _show_run(store, run, None if wide else terminal_columns(), as_json=as_json)
    return 0


def _show_runs(store: Store, last: int, *, as_json: bool) -> None:
    from bench.cli.tables import trials_with_row

    every = store.runs()
    runs = every[:last]
    rows = {run.id: trials_with_row(store.done(run.id)) for run in runs}
    if as_json:
        shown = ("id", "started_at", "suite", "device", "state", "planned_trials", "label")
        say_json([{**{name: getattr(run, name) for name in shown}, "rows": rows[run.id]} for run in runs])
        return
    if not runs:
        say(f"no runs yet: bench run SUITE{database_words()} makes one")
        return
    heads = ("run", "started", "suite", "device", "state", "rows", "label")
    room = terminal_columns()
    short = room is not None and room < ROOM_FOR_IDS and len({run.id[:SHORT_ID] for run in runs}) == len(runs)
    cells = [
        (
            run.id[:SHORT_ID] if short else run.id,
            run.started_at[:19],
            run.suite,
            run.device,
            _state(run),
            f"{rows[run.id]}/{run.planned_trials}",
            run.label or "",
        )
        for run in runs
    ]
    say(folded_table(heads, cells, room, right=(5,), widest=WIDEST_CELL))
    if len(every) > len(runs):
        say(f"\n{counted(len(every) - len(runs), 'older run')} not shown: bench show --last {len(every)}{database_words()}")


def _state(run: Run) -> str:
    """The state, and whether a run that nobody ended is still measured: a process that was killed cannot say so."""
    from bench.records import RunState

    if run.state is not RunState.RUNNING:
        return str(run.state)
    from bench.run import run_is_alive

    return "running" if run_is_alive(run.id) else "running, by no process of this host"


def _show_run(store: Store, run: Run, room: int | None, *, as_json: bool) -> None:
    from bench.cli.tables import answers, case_table, status_line, trials_with_row
    from bench.records import EXTERNAL, dump

    results = store.results([run.id], include_excluded=True)
    if as_json:
        say_json({"run": dump(run), "results": [dump(result) for result in results]})
        return
    there = trials_with_row(store.done(run.id))
    _facts(
        {
            "run": run.id,
            "label": run.label,
            "suite": run.suite,
            "question": run.question,
            "state": f"{_state(run)}, {there} of {run.planned_trials} planned trials have a row: {status_line(results)}",
            "device": run.device,
            "started": run.started_at,
            "finished": run.finished_at,
            "revision": "; ".join(_revision(item) for item in run.revision) or None,
            "command": run.command,
            "measures again": run.parent_run_id,
        }
    )
    say()
    if run.reason == EXTERNAL and results:
        for line in _audit_lines(store, run, results[0]):
            say(line)
        return
    say(case_table(run, results, room))
    if lines := answers(run, results, at_length=True):
        say()
        for line in lines:
            say(paragraph(line, room))
    excluded = [result for result in results if result.excluded_reason]
    if excluded:
        say(f"\n{len(excluded)} rows are excluded: {plain(excluded[0].excluded_reason or '')}")
    if results:
        say(f"\nOne row in full: bench show {plain(results[0].id)}{database_words()}")


def _audit_lines(store: Store, run: Run, result: Result) -> list[str]:
    """What an audit found, told anew: findings are not stored."""
    from bench.audit.stored import audit_in
    from bench.cli.audit import told

    return told(audit_in(result), store, (run, result))[0]


def _revision(item: Any) -> str:
    state = "" if item.dirty is None else ", with uncommitted changes" if item.dirty else ""
    return f"{item.name} {item.version or ''} {item.commit[:12] if item.commit else ''}".strip() + state


def _facts(facts: Mapping[str, Any], indent: str = "") -> None:
    shown = {name: value for name, value in facts.items() if value is not None}
    most = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        say(f"{indent}{plain(name):<{most}}  {plain(str(value))}")


def _section(title: str, lines: Iterable[str]) -> None:
    kept = [plain(line) for line in lines]
    if kept:
        say(f"\n{title}")
        for line in kept:
            say(f"  {line}")


def _show_result(store: Store, result: Result, *, whole_log: bool, as_json: bool) -> None:
    from bench.audit.whole import CONDITION
    from bench.records import dump
    from bench.report.numbers.memory import EXPLAINED
    from bench.report.numbers.units import fact, flatten, scientific

    if as_json:
        say_json(dump(result))
        return
    case, trial = result.case, result.trial
    _facts(
        {
            "result": result.id,
            "run": result.run_id,
            "workload": f"{case.workload} (version {case.workload_version})",
            "subject": case.subject_label,
            "point": ", ".join(
                f"{axis}={value}" for axis, value in {**case.point_data(), **case.params}.items() if axis in _SHOWN_AXES
            ),
            "parameters": ", ".join(f"{name}={value}" for name, value in case.params.items()),
            "trial": f"{trial.index} (arm {trial.arm}, block {trial.block}, position {trial.position}, attempt {trial.attempt})",
            "status": str(result.status),
            "reason": result.reason,
            "error": result.error_type,
            "last phase": result.phase,
            "excluded": result.excluded_reason,
            "started": result.started_at,
            "took": fact("duration_s", result.duration_s),
            "seed": result.seed,
            "command": result.command,
        }
    )
    _section("Measurements", (_measurement_line(measurement) for measurement in result.measurements))
    _section(
        "Checks against the float64 reference",
        (
            f"{check.tensor} ({check.at}): {'passed' if check.passed else 'FAILED'}"
            + "".join(
                f", {name} {scientific(value)}"
                for name, value in (("error", check.error), ("plain PyTorch", check.plain_error), ("limit", check.limit))
                if value is not None
            )
            + (f", {check.detail}" if check.detail else "")
            for check in result.checks
        ),
    )
    if result.proof is not None:
        _section(
            "What ran", [result.proof.verdict + (f": {result.proof.detail}" if result.proof.detail else ""), *result.proof.observed]
        )
    _section("Environment, hard", (f"{name} = {fact(name, value)}" for name, value in sorted(result.environment.hard.items())))
    _section("Environment, soft", (f"{name} = {fact(name, value)}" for name, value in sorted(result.environment.soft.items())))
    _section("The peak explained", _explained_lines(result))
    if CONDITION in result.conditions:
        _section("Audit", _audit_lines(store, store.find_run(result.run_id), result))
    conditions = {name: value for name, value in result.conditions.items() if name not in (EXPLAINED, CONDITION)}
    _section("Conditions", (f"{name} = {fact(name, value)}" for name, value in flatten(conditions)))
    lines = result.log.rstrip("\n").split("\n") if result.log.strip() else []
    kept = lines if whole_log else lines[-LOG_LINES_SHOWN:]
    _section("Log" if len(kept) == len(lines) else f"Log (last {len(kept)} of {len(lines)} lines; --log shows all)", kept)


def _explained_lines(result: Result) -> list[str]:
    """What the pass that explains the peak found beside the causes, which stand among the measurements."""
    from bench.report.numbers.memory import EXPLAINED, read_explained
    from bench.report.numbers.units import size

    found = read_explained(result.conditions.get(EXPLAINED))
    if found is None:
        return []
    lines = [f"peak of that pass: {size(found.peak_bytes)}{f', in {found.phase}' if found.phase else ''}"]
    lines += [f"temporaries in {where}: {size(much)}" for where, much in found.temporaries]
    return [*lines, f"its course over the step: {len(found.timeline)} moments, in the report and with --json"]


_SHOWN_AXES = frozenset({"pass", "dtype", "device", "cache", "timer", "world_size"})


def _measurement_line(measurement: Any) -> str:
    from bench.report.numbers.units import in_unit, range_in_unit
    from bench.stats import median

    samples, unit = measurement.samples, measurement.unit
    scope = "" if measurement.scope == "trial" else f" [{measurement.scope}]"
    many = f" (median of {len(samples)}, {range_in_unit(min(samples), max(samples), unit)})" if len(samples) > 1 else ""
    calls = f", {measurement.calls_per_sample} calls a sample" if measurement.calls_per_sample > 1 else ""
    note_ = f"; {measurement.note}" if measurement.note else ""
    return f"{measurement.metric}{scope} = {in_unit(median(samples), unit)}{many}{calls}{note_}"
