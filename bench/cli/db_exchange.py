"""`bench db export|publish|import|merge`: how results travel between databases and files."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from bench.cli.options import database_option, database_words, json_option
from bench.cli.terminal import counted, note, note_unread, say, say_json, standard_output
from bench.errors import StoreError
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.store import ImportReport

CONFLICTS_SHOWN = 20


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write (.gz, .xz: compressed); standard output by default.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "pytest-benchmark"]),
    default="jsonl",
    show_default=True,
    help="jsonl holds everything; pytest-benchmark the times of one run, for `pytest-benchmark compare`.",
)
@database_option
def export(runs: tuple[str, ...], output: Path | None, format_: str, database: str) -> int:
    """Write runs and their results as JSON Lines with a manifest. All runs unless some are named.

    For pytest-benchmark a round is a trial (the median of its samples, in seconds); cases without a time are left out, and counted.
    """
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        chosen = [store.find_run(text).id for text in runs]
        out: BinaryIO | Path = sys.stdout.buffer if output is None else output
        if format_ != "jsonl" and len(chosen) != 1:
            raise click.UsageError("a file of pytest-benchmark holds one run: name one")
        with standard_output():
            if format_ == "jsonl":
                store.export_jsonl(out, chosen or None)
            elif left_out := store.export_pytest_benchmark(out, chosen[0]).left_out:
                note(f"{left_out} cases have no time and are left out: the format knows nothing else")
        note_unread(store)
    if output is not None:
        note(f"wrote {output}")
    return 0


@click.command()
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
@json_option
def publish(runs: tuple[str, ...], output: Path, database: str, as_json: bool) -> int:
    """Write runs as files to be committed: DIR/<device>/<suite>.jsonl.xz and <suite>.summary.json.gz.

    Runs of one suite on one model of device share their files, which replace what was there. All files of DIR together may take 3 MiB;
    more is refused, and nothing written. `bench db import` reads them.
    """
    from bench.store import Store
    from bench.store import publish as write
    from bench.store.publishing import LIMIT_BYTES

    with Store.open(database, create=False, read_only=True) as store:
        chosen = list({run.id: run for run in (store.find_run(text) for text in runs)}.values())
        published = write(store, chosen, output)
        note_unread(store)
    try:
        with Store.open(database, create=False) as store:
            for run in chosen:
                store.pin(run.id, f"published in {output}")
    except StoreError as error:
        note(f"the runs could not be pinned, so `bench db gc` may thin them out later: {error}")
    if as_json:
        say_json({"files": [str(path) for path in published.files], "total_bytes": published.total_bytes})
        return 0
    for path in published.files:
        say(plain(str(path)))
    taken = f"{published.total_bytes / 2**20:.2f} MiB of {LIMIT_BYTES / 2**20:g} MiB"
    note(f"what lies in {output} takes {taken}; `make report` counts the published pages as well")
    return 0


@click.command(name="import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE...")
@click.option("--format", "format_", metavar="NAME", help="What the files are (default: told by their beginning).")
@database_option
@json_option
def import_(files: tuple[Path, ...], format_: str | None, database: str, as_json: bool) -> int:
    """Add what `bench db export` or another tool wrote. What is there already is left alone; a conflict is reported and kept out.

    Formats: our own export and HTML report, Liger-Kernel's benchmark CSV, nvbench's JSON, pytest-benchmark's JSON. Rows of other tools
    belong to a workload of their own (`liger:rope`), are neither checked nor proved, and share no hard environment with measured ones: no
    comparison mixes them. What the source does not tell is not known here either: a report tells the median of each trial. Its runs can be
    named by the ids that it prints.

    Exit code 0: all is there now; 2: a file was refused or something conflicts.
    """
    from bench.store import Store

    told = []
    with Store.open(database) as store:
        for notice in store.notices:
            note(notice)
        for file in files:
            told.append(_told(str(file), store.import_file(file, format_), as_json=as_json))
    if as_json:
        say_json(told)
    return 2 if any(entry["conflicts"] for entry in told) else 0


@click.command()
@click.argument("others", nargs=-1, required=True, metavar="OTHER...")
@database_option
@json_option
def merge(others: tuple[str, ...], database: str, as_json: bool) -> int:
    """Take in what other databases (paths or URLs) have and --db has not. The others stay as they are.

    A row is known by its id and by its trial (run, case, arm, index, attempt), whichever machine made it. What is there already is left
    alone; a row with other content is reported and kept out. Each database is taken whole or not at all, one after the other.

    Exit code 0: all is there now; 2: a database was refused or something conflicts.
    """
    from bench.store import Store

    told = []
    with Store.open(database) as store:
        for notice in store.notices:
            note(notice)
        for text in others:
            with Store.open(text, create=False, read_only=True) as other:
                told.append(_told(other.location.shown, store.merge(other), as_json=as_json))
                note_unread(other)
    if as_json:
        say_json(told)
    return 2 if any(entry["conflicts"] for entry in told) else 0


def _told(source: str, report: ImportReport, *, as_json: bool) -> dict[str, Any]:
    if not as_json:
        failed = f" ({report.results_new_not_ok} of them not ok)" if report.results_new_not_ok else ""
        say(
            f"{plain(source)}: {counted(report.runs_new, 'run')} and {counted(report.results_new, 'result')} are new{failed}, "
            f"{report.runs_same} and {report.results_same} were there, {len(report.conflicts)} in conflict"
        )
        if len(report.new_runs) == 1:
            say(f"  bench show {report.new_runs[0]}{database_words()}")
        for conflict in report.conflicts[:CONFLICTS_SHOWN]:
            note(f"kept out: {conflict}")
        if len(report.conflicts) > CONFLICTS_SHOWN:
            note(f"and {len(report.conflicts) - CONFLICTS_SHOWN} more")
    return {"file": source, **dataclasses.asdict(report)}
