"""`bench bisect`: which commit or release made a series worse; and a judge of one commit for `git bisect run`."""

from __future__ import annotations

import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import database_option, json_option, no_wait_option
from bench.cli.terminal import note, progress_line, say, say_json
from bench.errors import BenchError
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.judge.bisect import Bisection
    from bench.run import Progress

NOTHING_TO_FIND = 3
GIT_GOOD, GIT_BAD, GIT_SKIP, GIT_ABORT, INTERRUPTED = 0, 1, 125, 128, 130
"""What `git bisect run` understands. Its 1 to 127 mean bad, so a mistake of ours or the user's must be above."""


@click.command()
@click.argument("series")
@click.argument("good")
@click.argument("bad")
@click.option("--of", metavar="NAME", help="What of all that is under test moves, where several things have both commits.")
@click.option(
    "--versions", metavar="A,B,C", help="Of a package: the versions to look through, instead of those that pip's index has."
)
@click.option(
    "--pairs", type=click.IntRange(3, 64), default=6, show_default=True, metavar="N", help="Processes of each version at a time."
)
@click.option("--step", is_flag=True, help="Judge only what lies here: exit 0 good, 1 bad, 125 could not be judged, 128 stop.")
@no_wait_option
@database_option
@json_option
def bisect(
    series: str,
    good: str,
    bad: str,
    of: str | None,
    versions: str | None,
    pairs: int,
    step: bool,
    no_wait: bool,
    database: str,
    as_json: bool,
) -> int:
    """Find the first commit or release after GOOD, up to BAD, in which SERIES (the beginning of its key) is worse.

    GOOD and BAD are commits of a path under test, or package==version of a package under test. First both are measured in turn: where they
    do not differ there is nothing to look for. Then candidates are measured by halves, each in turn with the good one, in today's
    environment; one that cannot be had or does not run is stepped round. Exit code 0: found; 3: no difference, or several are left.

    As the judge of `git bisect run`: git bisect run bench bisect --step SERIES GOOD BAD
    """
    if step:
        return _step(series, good, bad, of, pairs, database, wait=not no_wait)
    from bench.judge.bisect import ask
    from bench.judge.bisect import bisect as search
    from bench.run.in_turn import Stopped
    from bench.store import Store

    with Store.open(database, create=False) as store:
        for notice in store.notices:
            note(notice)
        question = ask(store, series, good, bad, of=of, pairs=pairs, wait=not no_wait)
        known = [version.strip() for version in (versions or "").split(",") if version.strip()]
        try:
            found = search(question, store, pairs=pairs, known=known, progress=_tell, tell=note if as_json else _say)
        except Stopped as stopped:
            note(str(stopped))
            return INTERRUPTED
    if as_json:
        say_json(_data(found))
    else:
        _conclude(found)
    return 0 if found.found is not None and len(found.found.culprits) == 1 else NOTHING_TO_FIND


def _step(series: str, good: str, bad: str, of: str | None, pairs: int, database: str, *, wait: bool) -> int:
    """The exit code for git. Nothing that is not about this commit may read as bad."""
    from bench.judge.bisect import ask, step
    from bench.judge.place import CannotConfirm
    from bench.run.bisecting import Side
    from bench.run.in_turn import Stopped, VersionFailed
    from bench.run.versions import CannotRebuild
    from bench.store import Store

    try:
        with Store.open(database, create=False) as store:
            question = ask(store, series, good, bad, of=of, pairs=pairs, wait=wait)
            side, words = step(question, store, pairs=pairs, progress=_tell)
    except (CannotConfirm, CannotRebuild, VersionFailed) as error:
        note(f"could not be judged: {error}")
        return GIT_SKIP
    except (Stopped, KeyboardInterrupt):
        return INTERRUPTED
    except BenchError as error:
        note(str(error))
        return GIT_ABORT
    except Exception:  # noqa: BLE001 - our own fault, shown whole; the entry point's 2 would tell git that the commit is bad
        note(traceback.format_exc().rstrip())
        return GIT_ABORT
    _say(f"{side}: {words}")
    return {Side.GOOD: GIT_GOOD, Side.BAD: GIT_BAD, Side.UNKNOWN: GIT_SKIP}[side]


def _say(text: str) -> None:
    say(plain(text, lines=True))


def _tell(progress: Progress) -> None:
    progress_line(progress.text)


def _conclude(found: Bisection) -> None:
    from bench.judge.verdict import Word

    if found.difference.word is Word.INVALID:
        _say(f"\nwhether good and bad differ could not be told: {found.difference.reason}")
        return
    if found.found is None:
        _say("\ngood and bad do not differ when they are measured in turn: there is nothing to look for")
        return
    culprits = [found.question.spelled(candidate) for candidate in found.found.culprits]
    if len(culprits) == 1:
        _say(f"\nfirst bad: {culprits[0]}")
    else:
        _say(f"\nthe first bad one is one of {len(culprits)}, since some could not be judged:")
        for culprit in culprits:
            _say(f"  {culprit}")
    _say(f"all rows are in run {found.run_id}")


def _data(found: Bisection) -> dict[str, Any]:
    from bench.cli.verdict_files import verdict_data

    question = found.question
    return {
        "series": question.series.key,
        "run": found.run_id,
        "of": question.moving,
        "good": question.good,
        "bad": question.bad,
        "difference": verdict_data(found.difference),
        "culprits": [{"candidate": one, "words": question.spelled(one)} for one in found.found.culprits] if found.found else [],
        "steps": [asdict(one) for one in found.found.steps] if found.found else [],
    }
