"""`bench db`: the life of the results database."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import BinaryIO

import click

from bench.cli.options import database_option, database_words, json_option
from bench.cli.terminal import note, say, say_json
from bench.plaintext import plain

CONFLICTS_SHOWN = 20


@click.group()
def db() -> None:
    """Check, upgrade, export, publish and import the results database."""


@db.command()
@database_option
@json_option
def check(database: str, as_json: bool) -> int:
    """Look for damage: broken pages, rows without their run, samples that do not decode, runs that never ended.

    A run that a process of this host measures now is no finding. Exit code 0: sound; 2: something was found.
    """
    from bench.records import RunState
    from bench.run import run_is_alive
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        findings = store.check(running=False)
        cut_off = [run for run in store.runs() if run.state is RunState.RUNNING and not run_is_alive(run.id)]
    findings += [
        f"run {run.id} (started {run.started_at}) is marked running, and no process of this host works on it: "
        f"unless another machine measures it, finish it with `bench run --resume {run.id}{database_words()}`"
        for run in cut_off
    ]
    if as_json:
        say_json({"database": str(_shown(database)), "findings": findings})
    elif findings:
        for finding in findings:
            say(plain(finding))
    else:
        say(f"{_shown(database)} is sound")
    return 2 if findings else 0


@db.command()
@database_option
def upgrade(database: str) -> int:
    """Bring the database to this version's schema; an SQLite file is copied aside first."""
    from bench.store import upgrade as upgrade_store

    answer = upgrade_store(database)
    for notice in answer.notices:
        note(notice)
    if answer.before == answer.after:
        say(f"{_shown(database)} has this version's schema already ({answer.after})")
    else:
        say(f"{_shown(database)}: schema {answer.before or 'none'} became {answer.after}")
    if answer.backup is not None:
        say(f"a copy of what was there before: {plain(str(answer.backup))}")
    return 0


@db.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write (.gz: compressed); standard output by default.",
)
@database_option
def export(runs: tuple[str, ...], output: Path | None, database: str) -> int:
    """Write runs and their results as JSON Lines with a manifest. All runs unless some are named."""
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        chosen = [store.find_run(text).id for text in runs] or None
        out: BinaryIO | Path = sys.stdout.buffer if output is None else output
        store.export_jsonl(out, chosen)
    if output is not None:
        note(f"wrote {output}")
    return 0


@db.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--output",
    default="results/published",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of published results.",
)
@database_option
def publish(runs: tuple[str, ...], output: Path, database: str) -> int:
    """Write runs as files to be committed: DIR/<device>/<suite>.jsonl.gz and <suite>.summary.json.

    Runs of one suite on one model of device share their files, which replace what was there. All files of DIR together may take 3 MiB;
    more is refused, and nothing written. `bench db import` reads them.
    """
    from bench.store import Store
    from bench.store import publish as write

    with Store.open(database, create=False, read_only=True) as store:
        chosen = list({run.id: run for run in (store.find_run(text) for text in runs)}.values())
        published = write(store, chosen, output)
    for path in published.files:
        say(plain(str(path)))
    note(f"published files take {published.total_bytes / 2**20:.2f} MiB of 3 MiB")
    return 0


@db.command(name="import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE...")
@database_option
@json_option
def import_(files: tuple[Path, ...], database: str, as_json: bool) -> int:
    """Add what `bench db export` wrote. What is there already is left alone; a conflict is reported and kept out.

    Exit code 0: all is there now; 2: a file was refused or something conflicts.
    """
    from bench.store import Store

    told = []
    with Store.open(database) as store:
        for notice in store.notices:
            note(notice)
        for file in files:
            report = store.import_jsonl(file)
            told.append({"file": str(file), **dataclasses.asdict(report)})
            if not as_json:
                say(
                    f"{plain(str(file))}: {report.runs_new} runs and {report.results_new} results are new, "
                    f"{report.runs_same} and {report.results_same} were there, {len(report.conflicts)} in conflict"
                )
                for conflict in report.conflicts[:CONFLICTS_SHOWN]:
                    note(f"kept out: {conflict}")
                if len(report.conflicts) > CONFLICTS_SHOWN:
                    note(f"and {len(report.conflicts) - CONFLICTS_SHOWN} more")
    if as_json:
        say_json(told)
    return 2 if any(entry["conflicts"] for entry in told) else 0


def _shown(database: str) -> str:
    from bench.machine import scrub

    return plain(scrub(database))
