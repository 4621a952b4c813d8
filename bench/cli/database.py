"""`bench db`: the life of the results database."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from bench.cli.db_exchange import export, import_, merge, publish
from bench.cli.options import database_option, database_words, json_option
from bench.cli.terminal import counted, note, say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.store import Store


@click.group()
def db() -> None:
    """Check, upgrade, export, publish, import, merge and thin out the results database."""


for _command in (export, publish, import_, merge):
    db.add_command(_command)


@db.command()
@database_option
@json_option
def check(database: str, as_json: bool) -> int:
    """Look for damage: broken pages, rows without their run, values that do not read, wrong units and dates, runs that never ended.

    A run that a process of this host measures now is no finding. Exit code 0: sound; 2: something was found.
    """
    from bench.run import run_is_alive
    from bench.store import Store
    from bench.store.failures import Damaged

    findings: list[str] = []
    try:
        with Store.open(database, create=False, read_only=True) as store:
            findings += store.check(running=False)
            runs = store.count_runs()
            cut_off = [(ident, began) for ident, began in store.running() if not run_is_alive(ident)]
            results = store.count_results()
    except Damaged as damage:
        findings.append(f"{_shown(database)} is damaged and cannot be read to its end: {damage.detail}")
        if as_json:
            say_json({"database": _shown(database), "runs": None, "results": None, "findings": findings})
        else:
            _say_findings(findings)
            say("keep a copy of the file, and export what can be read: bench db export RUN -o FILE" + database_words())
        return 2
    findings += [
        f"run {ident} (started {began}) is marked running, and no process of this host works on it: "
        f"unless another machine measures it, finish it with `bench run --resume {ident}{database_words()}`"
        for ident, began in cut_off
    ]
    if as_json:
        say_json({"database": _shown(database), "runs": runs, "results": results, "findings": findings})
    elif findings:
        _say_findings(findings)
    else:
        say(f"{_shown(database)} is sound: {counted(runs, 'run')} with {counted(results, 'result')}")
    return 2 if findings else 0


def _say_findings(findings: Sequence[str]) -> None:
    for finding in findings:
        say(plain(finding))


@db.command()
@database_option
@json_option
def upgrade(database: str, as_json: bool) -> int:
    """Bring the database to this version's schema; an SQLite file is copied aside first."""
    from bench.store import upgrade as upgrade_store

    answer = upgrade_store(database)
    for notice in answer.notices:
        note(notice)
    if as_json:
        backup = str(answer.backup) if answer.backup is not None else None
        say_json({"database": _shown(database), "before": answer.before, "after": answer.after, "backup": backup})
        return 0
    if answer.before == answer.after:
        say(f"{_shown(database)} has this version's schema already ({answer.after})")
    else:
        say(f"{_shown(database)}: schema {answer.before or 'none'} became {answer.after}")
    if answer.backup is not None:
        say(f"a copy of what was there before: {plain(str(answer.backup))}")
    return 0


@db.command()
@click.argument("what", metavar="RUN|RESULT")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stands beside the row for ever.")
@database_option
@json_option
def exclude(what: str, reason: str, database: str, as_json: bool) -> int:
    """Keep a result, or all results of a run, out of what is judged and shown. Nothing is deleted, and the first reason stays."""
    from bench.machine import scrub
    from bench.store import Store

    reason = scrub(reason.strip())
    if not reason:
        raise click.BadParameter("an exclusion needs a reason", param_hint="--reason")
    with Store.open(database, create=False) as store:
        run_id, result_id = _run_or_result(store, what)
        # Not the rows themselves: one that does not read is excluded so.
        standing = {one: why for one, why in store.exclusions(run_id).items() if result_id in (None, one)}
        if result_id is None:
            count = store.exclude_run(run_id, reason)
        else:
            store.exclude(result_id, reason)
            count = 1 - len(standing)
    if as_json:
        say_json({"excluded": count, "already": standing})
        return 0
    say(f"{counted(count, 'row')} {_are(count)} excluded now: {plain(reason)}")
    if standing:
        before = f"{len(standing)} {'was' if len(standing) == 1 else 'were'} excluded before"
        say(f"{before}, and that reason stays: {plain(next(iter(standing.values())))}")
    return 0


@db.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--reason", metavar="TEXT", help="Why these runs are kept whole.")
@click.option("--remove", is_flag=True, help="Take the pins of these runs away instead.")
@database_option
@json_option
def pin(runs: tuple[str, ...], reason: str | None, remove: bool, database: str, as_json: bool) -> int:
    """Keep runs whole whatever their age, so that `bench db gc` takes nothing of them. Without a run: show what is pinned.

    `bench db publish` pins what it publishes.
    """
    from bench.machine import scrub
    from bench.store import Store

    if runs and remove == bool(reason):
        raise click.UsageError("give either --reason TEXT or --remove")
    with Store.open(database, create=False, read_only=not runs) as store:
        for run_id in dict.fromkeys(store.find_run(text).id for text in runs):
            if remove:
                store.unpin(run_id)
            else:
                store.pin(run_id, scrub(reason or ""))
        pins = store.pins()
    if as_json:
        say_json([dataclasses.asdict(one) for one in pins])
        return 0
    for one in pins:
        say(plain(f"{one.run_id}  {one.pinned_at}  {one.reason}"))
    if not pins:
        say("no run is pinned")
    return 0


_days = click.FloatRange(min=0, max=100_000)


@db.command()
@click.option(
    "--samples-days", type=_days, default=90.0, show_default=True, metavar="N", help="Days for which raw samples are kept."
)
@click.option(
    "--logs-days", type=_days, default=90.0, show_default=True, metavar="N", help="Days for which logs of trials are kept."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@database_option
@json_option
def gc(samples_days: float, logs_days: float, dry_run: bool, database: str, as_json: bool) -> int:
    """Drop raw samples and logs of runs that started long ago. Rows, statuses, checks, medians and reasons stay for ever.

    What is lost: of each metric of a trial n, median, mean, 5 % and 95 % stay; its histogram and its order in time do not. Judgements
    and reports rest on medians of trials, so none of them changes. Left whole are pinned runs (published ones too), runs in progress, and
    imported runs whose date the source did not tell. Sizes are in MiB (2^20 bytes).
    """
    from bench.store import Retention, Store

    with Store.open(database, create=False, read_only=dry_run) as store:
        done = store.collect(Retention(samples_days, logs_days), dry_run=dry_run)
    for notice in done.notices:
        note(notice)
    if as_json:
        say_json({"dry_run": dry_run, **dataclasses.asdict(done)})
        return 0
    say(
        f"{'would drop' if dry_run else 'dropped'} the samples of {counted(done.samples, 'measurement')} ({_mib(done.sample_bytes)}) "
        f"and {counted(done.logs, 'log')} ({_mib(done.log_bytes)}) of {counted(done.results, 'result')}; "
        f"{counted(done.pinned_runs, 'old run')} {_are(done.pinned_runs)} pinned and stay{'s' if done.pinned_runs == 1 else ''} whole"
    )
    after = "" if done.size_after is None else f", now {_mib(done.size_after)}"
    say(f"the database took {_mib(done.size_before)}{after}")
    return 0


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _run_or_result(store: Store, text: str) -> tuple[str, str | None]:
    """The run's id, and the result's where one was named. Raises SelectionError."""
    from bench.errors import SelectionError

    try:
        return store.find_run(text).id, None
    except SelectionError as no_run:
        try:
            result_id, run_id = store.find_result_id(text)
        except SelectionError as no_result:
            raise SelectionError(f"{no_run}; {no_result}") from no_result
        return run_id, result_id


def _shown(database: str) -> str:
    from bench.machine import scrub

    return plain(scrub(database))
