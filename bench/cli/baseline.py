"""`bench baseline` and `bench accept`: what people decide about results, by name, with a reason and an end."""

from __future__ import annotations

import getpass
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import click

from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.options import database_option, database_words, json_option
from bench.cli.terminal import note, say, say_json
from bench.errors import SelectionError
from bench.machine import scrub
from bench.plaintext import plain

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_DAYS = re.compile(r"(\d+)d")


def _author(author: str | None) -> str:
    try:
        return scrub(author or getpass.getuser())
    except (KeyError, OSError) as error:
        raise SelectionError("this user has no name here: give one with --author") from error


def parse_end(text: str, now: datetime) -> str:
    """The end of `30d` or `2026-12-31` (its last second, UTC) in ISO 8601; raises SelectionError for anything else."""
    days = _DAYS.fullmatch(text.strip())
    try:
        if days:
            return (now + timedelta(days=int(days[1]))).isoformat(timespec="seconds")
        return datetime.strptime(text.strip(), "%Y-%m-%d").replace(hour=23, minute=59, second=59, tzinfo=UTC).isoformat()
    except (ValueError, OverflowError) as error:
        raise SelectionError(f"{text!r} is no end: write a day such as 2026-12-31, or 30d") from error


_UNTIL_HELP = "The day on which it ends, such as 2026-12-31, or 30d from now."
_author_option = click.option("--author", help="Who decides. Default: the name of this user.")


@click.group()
def baseline() -> None:
    """Name runs that comparisons rest on: `bench compare release latest`."""


@baseline.command(name="set")
@click.argument("name")
@click.argument("run")
@click.option("--reason", required=True, help="Why this run.")
@click.option("--until", metavar="END", help=f"{_UNTIL_HELP} Default: never.")
@_author_option
@database_option
@json_option
def set_(name: str, run: str, reason: str, until: str | None, author: str | None, database: str, as_json: bool) -> int:
    """Let NAME mean RUN (id, beginning of an id, label or `latest`) from now on. The run is kept whole by `bench db gc`.

    A name is letters, digits, `.`, `_` and `-`, and begins with a letter. What it meant before stays on record.
    """
    from bench.records import RunState
    from bench.store import Baseline, Store

    if not _NAME.fullmatch(name) or name == "latest":
        raise SelectionError(
            f"{name!r} is no name for a baseline: letters, digits, . _ and -, beginning with a letter, and not `latest`"
        )
    now = datetime.now(UTC)
    with Store.open(database, create=False) as store:
        found = store.find_run(run)
        if found.state is not RunState.FINISHED:
            raise SelectionError(f"run {found.id} ended as {found.state}: a baseline must be whole")
        ends = parse_end(until, now) if until else None
        stamp = now.isoformat(timespec="microseconds")
        made = Baseline(name, found.id, _author(author), scrub(reason), stamp, ends)
        store.set_baseline(made)
        store.pin(found.id, f"baseline {name}")
    if as_json:
        say_json(asdict(made))
        return 0
    say(plain(f"{name} is run {found.id} ({found.suite}, {found.started_at[:19]}) now"))
    return 0


@baseline.command(name="list")
@database_option
@json_option
def list_(database: str, as_json: bool) -> int:
    """List the names with their runs, authors, reasons and ends."""
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        found = store.baselines()
    if as_json:
        say_json([asdict(one) for one in found])
    elif found:
        rows = [(one.name, one.run_id or "", one.set_at[:10], one.author, (one.expires_at or "")[:10], one.reason) for one in found]
        say(folded_table(("name", "run", "set", "by", "ends", "reason"), rows, terminal_columns()))
    else:
        say(f"no baselines yet: bench baseline set NAME RUN --reason TEXT{database_words()} makes one")
    return 0


@baseline.command(name="remove")
@click.argument("name")
@click.option("--reason", required=True, help="Why it goes.")
@_author_option
@database_option
@json_option
def remove(name: str, reason: str, author: str | None, database: str, as_json: bool) -> int:
    """Take NAME away. Its run stays, and stays pinned; what the name meant stays on record."""
    from bench.store import Baseline, Store

    with Store.open(database, create=False) as store:
        if name not in [one.name for one in store.baselines()]:
            raise SelectionError(f"no baseline has the name {name!r}. `bench baseline list` lists them")
        stamp = datetime.now(UTC).isoformat(timespec="microseconds")
        gone = Baseline(name, None, _author(author), scrub(reason), stamp)
        store.set_baseline(gone)
    if as_json:
        say_json(asdict(gone))
        return 0
    say(plain(f"{name} is no baseline any more"))
    return 0


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--series", multiple=True, metavar="KEY", help="Only this series (the beginning of its key). Can be repeated.")
@click.option("--every", is_flag=True, help="All rows that are worse or missing.")
@click.option("--reason", required=True, help="Why it is wanted.")
@click.option("--until", metavar="END", required=True, help=_UNTIL_HELP)
@_author_option
@database_option
@json_option
def accept(
    first: str,
    second: str,
    series: tuple[str, ...],
    every: bool,
    reason: str,
    until: str,
    author: str | None,
    database: str,
    as_json: bool,
) -> int:
    """Accept rows of `bench compare A B` that are worse or missing, so that they fail no job until END.

    With --series also what was worse when B's suspects were measured again, though two runs apart may not show it.
    What becomes worse than it is now, by more than 5 %, counts again; after END everything does. Keys of series are in the JSON of
    `bench compare` and in the list of `bench history`.
    """
    from bench.cli.compare import judged
    from bench.judge.acceptances import acceptance_of
    from bench.judge.answer import is_worse
    from bench.judge.confirmed import confirmed
    from bench.store import Store

    if bool(series) == every:
        raise SelectionError("say which rows: --series KEY, or --every for all that are worse or missing")
    now = datetime.now(UTC)
    with Store.open(database, create=False) as store:
        comparison = judged(store, first, second, ())
        open_ = [verdict for verdict in comparison.verdicts if is_worse(verdict)]
        if series:
            known = {verdict.series.key for verdict in open_}
            open_ += [verdict for verdict in confirmed(store, comparison.second.runs) if verdict.series.key not in known]
        lost = [key for key in series if not any(verdict.series.key.startswith(key) for verdict in open_)]
        if lost:
            raise SelectionError(f"no row that is worse or missing has a series key that begins with {', '.join(map(repr, lost))}")
        chosen = [verdict for verdict in open_ if every or any(verdict.series.key.startswith(key) for key in series)]
        if not chosen:
            note("nothing is worse or missing: there is nothing to accept")
            if as_json:
                say_json([])
            return 0
        stamp, ends, who = now.isoformat(timespec="seconds"), parse_end(until, now), _author(author)
        made = [acceptance_of(verdict, author=who, reason=scrub(reason), now=stamp, expires_at=ends) for verdict in chosen]
        store.accept(made)
    if as_json:
        say_json([asdict(one) for one in made])
        return 0
    say(f"{len(chosen)} row{'s are' if len(chosen) > 1 else ' is'} accepted until {ends[:10]}")
    return 0
