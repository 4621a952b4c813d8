"""`bench show`: a run as a table, or one result with all that is stored about it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from bench.cli.fitting import folded_table, paragraph, terminal_columns
from bench.cli.one_result import audit_lines, say_facts, show_result
from bench.cli.options import SHORT_ID, database_option, database_words, examples, json_option
from bench.cli.terminal import counted, note, note_unread, say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.records import Run
    from bench.store import Store

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
    "--last",
    type=click.IntRange(min=1),
    default=RUNS_SHOWN,
    show_default=True,
    metavar="N",
    help="How many of the latest runs to list.",
)
@click.option(
    "--wide", is_flag=True, help="Every column of a run's table, with ids of results, also where the terminal is too narrow."
)
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
            show_result(store, found, whole_log=whole_log, as_json=as_json)
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
            run.started_at[:19] or "unknown",
            run.suite,
            run.device,
            _state(run),
            f"{rows[run.id]}/{run.planned_trials}",
            run.label or "",
        )
        for run in runs
    ]
    say(folded_table(heads, cells, room, right=(5,)))
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
    note_unread(store)
    if as_json:
        say_json({"run": dump(run), "results": [dump(result) for result in results]})
        return
    there = trials_with_row(store.done(run.id))
    say_facts(
        {
            "run": run.id,
            "label": run.label,
            "suite": run.suite,
            "question": run.question,
            "state": f"{_state(run)}, {there} of {run.planned_trials} planned trials have a row: {status_line(results)}",
            "device": run.device,
            "started": run.started_at or "unknown",
            "finished": run.finished_at,
            "revision": "; ".join(_revision(item) for item in run.revision) or None,
            "command": run.command,
            "measures again": run.parent_run_id,
        }
    )
    say()
    if run.reason == EXTERNAL and results:
        for line in audit_lines(store, run, results[0]):
            say(line)
        return
    say(case_table(run, results, room))
    if lines := answers(run, results, at_length=True):
        say()
        for line in lines:
            say(paragraph(line, room))
    excluded = Counter(result.excluded_reason for result in results if result.excluded_reason)
    if excluded:
        say()
    for reason, count in excluded.most_common():
        say(paragraph(f"{counted(count, 'row')} excluded: {plain(reason)}", room))
    if results:
        say(f"\nOne row in full: bench show {plain(results[0].id)}{database_words()}")


def _revision(item: Any) -> str:
    state = "" if item.dirty is None else ", with uncommitted changes" if item.dirty else ""
    version = item.version or ("(not installed)" if item.kind == "package" else "")
    return " ".join(word for word in (item.name, version, item.commit[:12] if item.commit else "") if word) + state
