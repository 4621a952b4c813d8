"""`bench report`: writes what a store holds about some runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import database_option
from bench.cli.terminal import json_text, note, say
from bench.errors import StoreError
from bench.plaintext import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.records import Run
    from bench.store import Store

SUFFIX = {"html": ".html", "markdown": ".md", "json": ".json", "csv": ".csv"}


def write_report(store: Store, runs: Sequence[Run], output: Path, kind: str) -> None:
    """Renders `runs` and replaces `output` in one step, so that a reader never sees half a report. Raises StoreError."""
    from bench.store.exchange import replacing

    text = _render(store, runs, kind).encode("utf-8", "backslashreplace")
    with replacing(output) as out:
        out.write(text)


def demand_writable(output: Path) -> None:
    """Makes the folder of a report that is to come, and tries it; raises StoreError where no file can be made there."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise StoreError(f"{output} cannot be written: {error.strerror or error}") from error


def _render(store: Store, runs: Sequence[Run], kind: str) -> str:
    from bench import report as room
    from bench.records import utc_now

    if kind == "html":
        return room.render_html(store, runs, now=utc_now("seconds"))
    results = store.results([run.id for run in runs], include_excluded=True)
    if kind == "markdown":
        return room.render_markdown(runs, results)
    if kind == "csv":
        return room.rows_csv(runs, results)
    return json_text(room.rows_json(runs, results)) + "\n"


def kind_of(output: Path | None, asked: str | None) -> str:
    """The format: what was asked for, else what the file's name ends with, else HTML."""
    if asked is not None:
        return asked
    by_suffix = {suffix: kind for kind, suffix in SUFFIX.items()}
    return by_suffix.get(output.suffix.lower(), "html") if output is not None else "html"


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; `-` for standard output. Default: reports/<suite>-<run>.<format>.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(SUFFIX)),
    help="Default: by the ending of --output, or html. One self-contained file.",
)
@database_option
def report(runs: tuple[str, ...], output: Path | None, format_: str | None, database: str) -> int:
    """Write the report of runs (ids, beginnings of ids, labels, or `latest`, which is the default).

    Times are in s, ms or µs and memory in KiB, MiB or GiB (powers of two); JSON and CSV hold seconds and bytes.
    """
    from bench.store import Store, file_word

    to_stdout = output is not None and str(output) == "-"
    kind = kind_of(output, format_)
    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        chosen = list({run.id: run for run in (store.find_run(text) for text in runs or ("latest",))}.values())
        if to_stdout:
            click.echo(_render(store, chosen, kind), nl=False)
            return 0
        target = output or Path("reports") / f"{file_word(chosen[0].suite)}-{chosen[0].id[:13]}{SUFFIX[kind]}"
        write_report(store, chosen, target, kind)
    say(plain(str(target)))
    return 0
