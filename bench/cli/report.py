"""`bench report`: writes what a store, or files of results, hold about some runs."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import asked_format, database_option, json_option
from bench.cli.speech import drawing, language_option
from bench.cli.terminal import json_text, note, note_unread, put, say
from bench.errors import SelectionError, StoreError
from bench.lang import spoken
from bench.plaintext import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.records import Result, Run
    from bench.store import Store

SUFFIX = {"html": ".html", "markdown": ".md", "json": ".json", "csv": ".csv", "eml": ".eml"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a report is to be made, beyond its format."""

    now: str
    """The time of rendering that is printed: UTC, ISO 8601."""
    figures: Path | None = None
    light: bool = False
    sender: str | None = None
    to: tuple[str, ...] = ()
    subject: str | None = None


def write_report(store: Store, runs: Sequence[Run], output: Path, kind: str) -> None:
    """Renders `runs` and replaces `output` in one step, so that a reader never sees half a report. Raises StoreError."""
    from bench.store.exchange import replacing

    text = _render(runs, _rows(store, runs), kind, Wishes(_rendered_at(None)), output.name)
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


def _rows(store: Store, runs: Sequence[Run]) -> list[Result]:
    rows = store.results([run.id for run in runs], include_excluded=True)
    note_unread(store)
    return rows


def _render(runs: Sequence[Run], results: Sequence[Result], kind: str, wishes: Wishes, name: str) -> bytes:
    """The bytes of a report that is called `name`; figures are written beside it."""
    from bench import report as room

    if kind in ("html", "eml") or wishes.figures is not None:
        page = _page(runs, results, kind, wishes, name)
        if kind in ("html", "eml"):
            return page
    if kind == "markdown":
        text = room.render_markdown(runs, results)
    elif kind == "csv":
        text = room.rows_csv(runs, results)
    else:
        text = json_text(room.rows_json(runs, results)) + "\n"
    return text.encode("utf-8", "backslashreplace")


def _page(runs: Sequence[Run], results: Sequence[Result], kind: str, wishes: Wishes, name: str) -> bytes:
    from bench import report as room

    if kind == "html" and wishes.figures is None:
        return _finished(room.render_page(runs, results, now=wishes.now, light=wishes.light), wishes)
    from bench.report.outputs.drawn import collected, figure_files

    with drawing() if wishes.figures is not None else nullcontext(), collected() as drawings:
        page = room.render_page(runs, results, now=wishes.now, light=wishes.light)
    if wishes.figures is not None:
        _write_figures(wishes.figures, figure_files(drawings, runs, results))
    if kind != "eml":
        return _finished(page, wishes)
    from bench.report.outputs.mail import BadHeader, Headers, render_mail

    headers = Headers(wishes.sender, wishes.to, wishes.subject)
    attached = Path(name).with_suffix(".html").name
    try:
        return render_mail(runs, results, page, next(iter(drawings), None), headers, now=wishes.now, name=attached)
    except BadHeader as error:
        raise click.UsageError(str(error)) from error


def _finished(page: str, wishes: Wishes) -> bytes:
    """The bytes of a page, in the language that is spoken, with its parts packed where it is to travel light."""
    from bench.lang.pages import page_in
    from bench.report.outputs.folded import folded

    own = spoken()
    page = page if own is None else page_in(page, own)
    return (folded(page) if wishes.light else page).encode("utf-8", "backslashreplace")


def _write_figures(folder: Path, files: dict[Path, bytes]) -> None:
    from bench.store.exchange import replacing

    if not files:
        note(f"the page has no figure: nothing is written to {folder}")
        return
    for path, content in files.items():
        with replacing(folder / path) as out:
            out.write(content)
    note(f"{len(files)} files of {len(files) // 2} figures are in {folder}")


def kind_of(output: Path | None, asked: str | None) -> str:
    """The format: what was asked for, else what the file's name ends with, and HTML where it ends with nothing.

    Raises UsageError for an ending that is no format's.
    """
    if asked is not None:
        return asked
    if output is None or not output.suffix:
        return "html"
    by_suffix = {suffix: kind for kind, suffix in SUFFIX.items()} | {".htm": "html"}
    if output.suffix.lower() not in by_suffix:
        raise click.UsageError(f"no report is written as {output.suffix}: {output} may end with {', '.join(SUFFIX.values())}")
    return by_suffix[output.suffix.lower()]


def _rendered_at(epoch: str | None) -> str:
    """Now, or the second that SOURCE_DATE_EPOCH names, so that who needs the same bytes again can have them."""
    from bench.records import utc_now

    if not epoch:
        return utc_now("seconds")
    try:
        return datetime.fromtimestamp(int(epoch), UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError) as error:
        raise SelectionError(f"SOURCE_DATE_EPOCH={epoch!r} is no number of seconds since 1970") from error


def _end_of(runs: Sequence[Run]) -> str:
    """When the newest of the runs ended, to the second."""
    newest = max(run.finished_at or run.started_at for run in runs)
    try:
        return datetime.fromisoformat(newest).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return newest


def _open(path: Path) -> None:
    """Shows a file in a browser; says so where there is none."""
    try:
        shown = webbrowser.get().open(path.resolve().as_uri())
    except webbrowser.Error:
        shown = False
    if not shown:
        note(f"there is no browser here that could be opened: open {path} in one yourself")


@contextmanager
def _opened(database: str, sources: Sequence[Path]) -> Iterator[tuple[Store, list[Run]]]:
    """The database, or one of these files alone that is gone afterwards; then also its runs, file by file."""
    from bench.store import Store

    if not sources:
        with Store.open(database, create=False, read_only=True) as store:
            yield store, []
        return
    with tempfile.TemporaryDirectory(prefix="stepbench-report-") as folder, Store.open(Path(folder) / "files.db") as store:
        found: dict[str, Run] = {}
        for source in sources:
            for conflict in store.import_file(source, None).conflicts:
                note(f"kept out: {conflict}")
            found = {**found, **{run.id: run for run in reversed(store.runs()) if run.id not in found}}
        yield store, list(found.values())


def _chosen(store: Store, runs: Sequence[str], given: list[Run]) -> list[Run]:
    """Those that are named, else those of the files, else the latest."""
    if given and not runs:
        return given
    return list({run.id: run for run in (store.find_run(text) for text in runs or ("latest",))}.values())


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; `-` for standard output. Default: reports/<suite>-<run>.<format>; with --json the standard output.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(SUFFIX)),
    help="Default: by the ending of --output, or html. One self-contained file; eml is a mail with the HTML attached.",
)
@json_option
@click.option(
    "--from-file",
    "sources",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the runs from a file that `bench db import` reads, not from a database; all of them unless some are named. The time of "
    "rendering is then the end of the newest run, so that the same file gives the same bytes. Can be repeated.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write every figure of the page as DIR/<suite>/<workload>/<figure>.svg and .png as well.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Take out host, user, folders, labels, e-mail addresses and UUIDs, logs and data included; words such as host-1 stand there.",
)
@click.option(
    "--light",
    is_flag=True,
    help="Of a page: the charts of the first panels alone and the essentials of each row, a tenth of the size, so that it can lie in a "
    "repository. All numbers stay; rows and all panels but the first are packed, which a browser undoes, and `bench verify` holds them "
    "as well.",
)
@click.option("--to", multiple=True, metavar="ADDRESS", help="Of an eml: whom it is for. Can be repeated.")
@click.option("--from", "sender", metavar="ADDRESS", help="Of an eml: who sends it. Default: an address that no mail can reach.")
@click.option("--subject", metavar="TEXT", help="Of an eml. Default: the suite and how its cases ended.")
@click.option("--open", "show", is_flag=True, help="Open the file in a browser.")
@language_option
@database_option
def report(runs: tuple[str, ...], output: Path | None, format_: str | None, database: str, *, as_json: bool, **given: Any) -> int:
    """Write the report of runs (ids, beginnings of ids, labels, or `latest`, which is the default).

    Runs that measured parts of one suite (by --filter or --shard, no case twice, one revision) are told as one, except in JSON and CSV.
    Times are in s, ms or µs and memory in KiB, MiB or GiB (powers of two); JSON and CSV hold seconds and bytes. Markdown is at most 1 MB,
    as the summary of a CI step may be. SOURCE_DATE_EPOCH sets the time of rendering. `bench verify` checks an HTML file.
    """
    from bench.store import file_word

    to_stdout = str(output) == "-" if output is not None else as_json
    kind = kind_of(output, asked_format(format_, as_json=as_json))
    if kind != "eml" and (given["to"] or given["sender"] or given["subject"]):
        raise click.UsageError("--to, --from and --subject belong to --format eml")
    if given["light"] and kind not in ("html", "eml"):
        raise click.UsageError("--light is of a page: it belongs to --format html or eml")
    if spoken() is not None and kind != "html":
        raise click.UsageError("--lang is of a page: it belongs to --format html")
    if to_stdout and given["show"]:
        raise click.UsageError("--open needs a file: leave out `-o -`")
    with _opened(database, given["sources"]) as (store, found):
        for notice in store.notices if not given["sources"] else ():
            note(notice)
        chosen: Sequence[Run] = _chosen(store, runs, found)
        results: Sequence[Result] = _rows(store, chosen)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = _end_of(chosen) if given["sources"] and not epoch else _rendered_at(epoch)
    if given["redact"]:
        from bench.report.trust.redact import redacted

        chosen, results = redacted(chosen, results)
    if kind in ("html", "eml", "markdown"):
        from bench.report.numbers.parts import told_as_one

        chosen, results = told_as_one(chosen, results)
    target = output or Path("reports") / f"{file_word(chosen[0].suite)}-{chosen[0].id[:13]}{SUFFIX[kind]}"
    name = f"{file_word(chosen[0].suite)}{SUFFIX[kind]}" if to_stdout else target.name
    wishes = Wishes(now, given["figures"], given["light"], given["sender"], given["to"], given["subject"])
    content = _render(chosen, results, kind, wishes, name)
    if to_stdout:
        put(content)
        return 0
    from bench.store.exchange import replacing

    with replacing(target) as out:
        out.write(content)
    say(plain(str(target)))
    if given["show"]:
        _open(target)
    return 0
