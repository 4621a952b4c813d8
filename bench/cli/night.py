"""`bench night`: a whole nightly job: measures suites in turns, judges each, measures suspects again, and is silent where all is well."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.brief import Judged
from bench.cli.compare import FORMAT_OF, render
from bench.cli.options import (
    MOST_TRIALS,
    database_option,
    duration,
    every_option,
    json_option,
    no_wait_option,
    pairs_option,
    plugin_option,
)
from bench.cli.regress import Unjudged
from bench.cli.report import demand_writable
from bench.cli.terminal import note, progress_line, put, say, say_json
from bench.errors import StoreError
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.cli.planning import Planned
    from bench.machine import Device
    from bench.run import Progress, RunSummary
    from bench.store import Store
    from bench.suite import Filter

CONFIRM_SHARE = 0.2
"""Of the budget, what is kept for measuring suspects again."""
INTERRUPTED, NOTHING_OK, TROUBLE = 130, 3, 2
"""As exit codes; 3 also where the device was never free."""
_GRAVITY = (0, NOTHING_OK, 1, TROUBLE, INTERRUPTED)
"""Exit codes, the worst last."""
ENDINGS = {"text": "txt", **{format_: ending.removeprefix(".") for ending, format_ in FORMAT_OF.items()}}


@click.command()
@click.argument("suites", nargs=-1, required=True, metavar="SUITE...")
@click.option("--profile", metavar="P", help="A profile of the suite, such as quick or cpu.")
@click.option(
    "--trials", type=click.IntRange(1, MOST_TRIALS), metavar="N", help="Fresh processes per case. Default: the suite's protocol."
)
@click.option("--filter", "filters", multiple=True, metavar="K=V", help="Only cases with this value. Several must all hold.")
@click.option("--set", "sets", multiple=True, metavar="K=V", help="Override an axis or a setting of the suite.")
@click.option("--device", metavar="D", default="auto", show_default=True, help="auto, cuda, cuda:N or cpu.")
@plugin_option
@click.option(
    "--budget",
    metavar="TIME",
    callback=duration,
    help="For all suites and suspects together. What there is no time for takes turns.",
)
@click.option(
    "--priority",
    "priorities",
    multiple=True,
    metavar="K=V",
    help="With a budget: cases that are measured every night, before all others.",
)
@pairs_option
@every_option
@no_wait_option
@click.option(
    "--fail-on",
    type=click.Choice(["worse", "ambiguous", "never"]),
    default="worse",
    show_default=True,
    help="As of `bench regress`.",
)
@click.option(
    "--files",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave each suite's judgement there in all formats.",
)
@click.option("--verbose", is_flag=True, help="Say what is measured, and the whole judgement even where nothing is worse.")
@database_option
@json_option
def night(
    suites: tuple[str, ...],
    profile: str | None,
    trials: int | None,
    filters: tuple[str, ...],
    sets: tuple[str, ...],
    device: str,
    plugins: tuple[Path, ...],
    budget: float | None,
    priorities: tuple[str, ...],
    pairs: int,
    every: float,
    no_wait: bool,
    fail_on: str,
    files: Path | None,
    verbose: bool,
    database: str,
    as_json: bool,
) -> int:
    """Measure SUITEs as a night, judge them against the nights before, and say something only where something is to be said.

    With a budget the cases of --priority come first, and all others take turns: the longest unmeasured come next. Silent, and exit code 0,
    where nothing is worse; else at most 20 lines, and exit code 1: something is worse; 3: something could not be judged, or the device was
    held by somebody else until the budget was over; 2: trouble.
    """
    from bench.cli.brief import brief
    from bench.cli.planning import plan_all
    from bench.run import RunOptions
    from bench.store import Store
    from bench.suite import parse_filters

    options = RunOptions(
        profile=profile, sets=sets, filters=filters, trials=trials, device=device, plugins=tuple(str(path.resolve()) for path in plugins),
        wait_for_lock=not no_wait, reason="nightly",
    )  # fmt: skip
    wanted = parse_filters(priorities)
    if files is not None:
        demand_writable(files / "*.txt")
    found, catalogue, planned = plan_all(suites, options, database)
    began = time.monotonic()
    how = _How(found, catalogue, wanted, pairs, every, fail_on, wait=not no_wait, verbose=verbose)
    judged: list[Judged] = []
    with Store.open(database) as store:
        for notice in store.notices:
            note(notice)
        for place, entry in enumerate(planned):
            if judged and judged[-1].code == INTERRUPTED:
                judged.append(Judged(entry.suite.name, INTERRUPTED, ("not measured: the night was interrupted before it",)))
                continue
            left_s = None if budget is None else (budget - (time.monotonic() - began)) / (len(planned) - place)
            judged.append(_night(store, entry, how, left_s))
    if as_json:
        say_json([_data(one) for one in judged])
    elif verbose:
        for one in judged:
            say(plain(f"{one.suite}: {'; '.join(one.everything_said)}".removesuffix(" ")))
            put(_whole(one, "text"))
    elif lines := brief(judged, files):
        say(plain("\n".join(lines), lines=True))
    # Last, so that a folder that takes no file keeps nobody from being told.
    if files is not None:
        _leave(judged, files)
    return max((one.code for one in judged), key=_GRAVITY.index)


@dataclass(frozen=True, slots=True)
class _How:
    """What all suites of a night have in common."""

    device: Device
    catalogue: Catalogue
    priorities: tuple[Filter, ...]
    pairs: int
    every_s: float
    fail_on: str
    wait: bool
    verbose: bool

    def tell(self, progress: Progress) -> None:
        """A line for each trial, where somebody wants to see them; a wait for the device also where somebody sits before it."""
        if self.verbose or (progress.result is None and sys.stderr.isatty()):
            progress_line(progress.text)


def _night(store: Store, entry: Planned, how: _How, left_s: float | None) -> Judged:
    """One suite, measured and judged. What is wrong with it is no reason to leave the others out."""
    from bench.errors import BenchError, HarnessError
    from bench.run.locks import StillHeldError

    name = entry.suite.name
    try:
        summary = _measured(store, entry, how, left_s)
        if summary.exit_code == INTERRUPTED:
            return Judged(name, INTERRUPTED, ("interrupted: its night is not whole",))
        if summary.exit_code == NOTHING_OK:
            return Judged(name, NOTHING_OK, (f"no row of run {summary.run_id} is ok: bench show {summary.run_id[:13]}",))
        return _judged(store, name, summary, how, None if left_s is None else max(1.0, left_s - summary.duration_s))
    except KeyboardInterrupt:
        # The second Ctrl-C. Files of an earlier night must not pass for this one's.
        return Judged(name, INTERRUPTED, ("interrupted at once: its night is not whole",))
    except StillHeldError as error:
        return Judged(name, NOTHING_OK, (f"could not judge: {error}",))
    except (BenchError, HarnessError) as error:
        return Judged(name, TROUBLE, tuple(str(error).splitlines()[:3]))


def _measured(store: Store, entry: Planned, how: _How, left_s: float | None) -> RunSummary:
    """The night's run: with a budget its blocks take turns, and a part of the time is kept for suspects."""
    from bench.run import execute
    from bench.run.night import in_turns, last_measured

    plan, options = entry.plan, entry.options
    if left_s is not None:
        plan = in_turns(plan, entry.suite, last_measured(store, entry.suite.name), how.priorities)
        options = replace(options, budget_s=max(1.0, left_s * (1 - CONFIRM_SHARE)))
    return execute(plan, entry.suite, store, how.device, how.catalogue, options, progress=how.tell)


def _judged(store: Store, name: str, summary: RunSummary, how: _How, confirm_s: float | None) -> Judged:
    from bench.cli.regress import screened, settled
    from bench.judge.confirm import confirm, suspects
    from bench.run.in_turn import Stopped

    found = screened(store, (store.find_run(summary.run_id),), every_s=how.every_s)
    if isinstance(found, Unjudged):
        return Judged(name, found.code, found.said) if found.code else Judged(name, 0, found.missed, quiet=(found.why,))
    said = (found.first_on,) if found.first_on else ()
    stopped = False
    if suspects(found):
        try:
            found = confirm(found, store, pairs=how.pairs, budget_s=confirm_s, wait=how.wait, progress=how.tell)
        except Stopped:
            words = "interrupted: not all suspects were measured again, so this is what the screen alone says"
            stopped, said, found = True, (*said, words), replace(found, banners=(*found.banners, words))
    comparison, answer = settled(store, found, how.fail_on)
    return Judged(name, INTERRUPTED if stopped else answer.exit_code, said, comparison, answer)


def _data(one: Judged) -> dict[str, Any]:
    """One suite for programs; `judgement` is what `bench regress --json` prints, and None where nothing was judged: `said` tells why."""
    from bench.cli.verdict_files import comparison_data

    judgement = comparison_data(one.comparison, one.answer) if one.comparison is not None and one.answer is not None else None
    return {"suite": one.suite, "exit_code": one.code, "said": list(one.everything_said), "judgement": judgement}


def _leave(judged: Sequence[Judged], folder: Path) -> None:
    """Each suite's judgement in every format, for mails, step summaries and whatever shows test results; nothing of an earlier night."""
    for one in judged:
        for format_, ending in ENDINGS.items():
            target = folder / f"{one.suite}.{ending}"
            text = _whole(one, format_)
            if one.comparison is None and format_ in ("text", "markdown"):
                text = plain(f"{one.suite}: {'; '.join(one.everything_said)}\n", lines=True)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if text:
                    target.write_text(text, encoding="utf-8", errors="backslashreplace")
                else:
                    target.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error


def _whole(one: Judged, format_: str) -> str:
    if one.comparison is None or one.answer is None:
        return ""
    return render(one.comparison, one.answer, format_, everything=False)
