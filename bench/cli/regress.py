"""`bench regress`: the nightly judgement: did anything get slower, bigger or wrong since the nights before?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.compare import FORMAT_OF, render, verdict_options, write, write_unjudged
from bench.cli.fitting import terminal_columns
from bench.cli.options import asked_format, database_option, database_words, duration, every_option, no_wait_option, pairs_option
from bench.cli.terminal import note, progress_line

if TYPE_CHECKING:
    from bench.judge.answer import Answer
    from bench.judge.compare import Comparison
    from bench.judge.evidence import Evidence
    from bench.records import Run
    from bench.run import Progress
    from bench.store import Store

INTERRUPTED = 130
DRIFT_NIGHTS = 100
"""The newest nights that a drift is looked for in, as `bench history` shows by itself."""


@click.command()
@click.argument("run", default="latest", required=False)
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Measure every suspect again, in turn with the last good version, where it was measured here.",
)
@pairs_option
@click.option(
    "--budget", metavar="TIME", callback=duration, help="For measuring again, the largest changes first: 90s, 20m, 1h30m."
)
@no_wait_option
@every_option
@verdict_options
@database_option
def regress(
    run: str,
    confirm: bool,
    pairs: int,
    budget: float | None,
    no_wait: bool,
    every: float,
    format_: str,
    fail_on: str,
    output: Path | None,
    everything: bool,
    database: str,
    as_json: bool,
) -> int:
    """Judge RUN (id, label, commit or `latest`, which is the default) against the nights of its suite before it.

    A time beyond the limit of up to twenty nights before it is a suspect. It is measured again, in turn with the last good version of what
    is under test, in today's environment, and that decides. Where that cannot be done (it says why) a second night has to confirm it.
    Memory, sizes, errors and statuses are judged at once, and what is worse among them is measured again as well. With fewer than ten
    nights a time is still learning. Ratios are of medians; times in s, ms or µs, memory in powers of two. Exit code 0: nothing is worse, or
    all is learning; 1: something is; 3: could not judge.

    `bench night SUITE` measures such a night first.
    """
    from bench.judge.answer import COULD_NOT_JUDGE
    from bench.judge.confirm import confirm as measure_again
    from bench.judge.confirm import suspects
    from bench.judge.sides import StillGoing, demand_ended, find_side
    from bench.records import utc_now
    from bench.run.in_turn import Stopped
    from bench.store import Store

    format_ = asked_format(format_, as_json=as_json, output=output, endings=FORMAT_OF)
    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        tonight = find_side(store, run, now=utc_now("seconds"))
        try:
            demand_ended(tonight)
        except StillGoing as going:
            return _say_unjudged(Unjudged(COULD_NOT_JUDGE, f"could not judge: {going}"), format_, output)
        found = screened(store, tonight, every_s=every)
        if isinstance(found, Unjudged):
            return _say_unjudged(found, format_, output)
    again = suspects(found) if confirm else []
    with Store.open(database, create=False, read_only=not again) as store:
        if again:
            rows = f"{len(again)} suspect{'s' if len(again) > 1 else ''}"
            note(f"{rows}: measuring again in turn with the last good version, where that can be done")
            try:
                found = measure_again(found, store, pairs=pairs, budget_s=budget, wait=not no_wait, progress=_tell)
            except Stopped as stopped:
                note(str(stopped))
                return INTERRUPTED
        comparison, answer = settled(store, found, fail_on)
    room = terminal_columns() if output is None else None
    write(render(comparison, answer, format_, everything=everything, room=room), output)
    return answer.exit_code


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A night that there is nothing to judge in."""

    code: int
    why: str
    missed: tuple[str, ...] = ()
    """Nights that should have been and were not, a sentence each."""

    @property
    def said(self) -> tuple[str, ...]:
        """What was missed, and why there is nothing to judge."""
        return (*self.missed, self.why)


def _say_unjudged(found: Unjudged, format_: str, output: Path | None) -> int:
    """To who reads, and to a program that waits for JSON; returns the exit code."""
    for words in found.said:
        note(words)
    if format_ == "json":
        write_unjudged(found.code, found.why, output, banners=found.missed)
    return found.code


def screened(store: Store, tonight: tuple[Run, ...], *, every_s: float) -> Comparison | Unjudged:
    """The screen of a night, if it has rows and there was a night before it."""
    from bench.judge.answer import COULD_NOT_JUDGE
    from bench.judge.evidence import load_evidence
    from bench.judge.nights import lost_gpu, missed_nights, without_strange
    from bench.judge.regress import MOST_NIGHTS, NIGHTS, is_rotating
    from bench.judge.regress import regress as judge
    from bench.judge.sides import nights_before, nights_like

    earlier = without_strange(store, nights_before(store, tonight, most=MOST_NIGHTS), tonight)
    if not any(is_rotating(night) for night in (*earlier[-NIGHTS:], *tonight)):
        earlier = nights_like(store, earlier, tonight, most=NIGHTS)
    runs = store.runs(suite=tonight[0].suite)
    missed = tuple(missed_nights(runs, tonight[0], every_s=every_s))
    lost = lost_gpu(runs, tonight[0])
    own = load_evidence(store, tonight)
    if not own.trials:
        return Unjudged(COULD_NOT_JUDGE, f"could not judge: run {tonight[0].id} has no rows that count", missed)
    if not earlier and lost is not None:
        return Unjudged(COULD_NOT_JUDGE, f"could not judge: {lost}", missed)
    if not earlier:
        return _first_of_suite(tonight, missed)
    found = judge(load_evidence(store, earlier), own)
    drift = _drift(store, own)
    news = () if drift is None else (drift,)
    return replace(found, lost=lost, news=(*found.news, *news), banners=(*missed, *found.banners, *news))


def _first_of_suite(tonight: tuple[Run, ...], missed: tuple[str, ...]) -> Unjudged:
    """With no night before it a night begins to learn; a run that is none teaches nothing, so that nothing follows from it."""
    from bench.judge.answer import COULD_NOT_JUDGE
    from bench.judge.sides import is_night

    suite = tonight[0].suite
    if (cut := next((run for run in tonight if not is_night(run)), None)) is None:
        return Unjudged(
            0, f"run {tonight[0].id} is the first night of suite {suite}: all is learning, nothing can be judged", missed
        )
    words = f"could not judge: there is no night of suite {suite} before run {cut.id}, and {_why_no_night(cut)}"
    return Unjudged(COULD_NOT_JUDGE, words, missed)


def _why_no_night(run: Run) -> str:
    """Why no later night learns of it, and what to do about that."""
    from bench.records import RunState

    if run.state is RunState.FINISHED:
        return "that one only looked at some rows again, so it is none itself: bench run measures a suite"
    cut = {RunState.INTERRUPTED: "was interrupted", RunState.BUDGET: "ended with its budget"}.get(run.state, "is broken")
    return f"that one {cut}, so it is none itself until it is finished: bench run --resume {run.id}{database_words()}"


def _drift(store: Store, tonight: Evidence) -> str | None:
    """What to say of series that have crept away from their best level, on the first night on which that is firm."""
    from bench.cli.verdicts import row_namer
    from bench.judge.drift import drift_words, drifted
    from bench.judge.history import runs_at_rest
    from bench.judge.points import load_levels
    from bench.judge.thresholds import ERROR_SHARE, RULES

    ids, last = {run.id for run in tonight.runs}, max(run.started_at for run in tonight.runs)
    runs = runs_at_rest(store, suite=tonight.runs[0].suite, last=DRIFT_NIGHTS, until=last)
    levels = load_levels(store, runs, [metric for metric in RULES if metric != ERROR_SHARE])
    found = drifted(levels, ids, new=True)
    ours = [one for one in found if not tonight.is_canary(one.series.case_key)]
    canaries = [one for one in drifted(levels, ids, new=False) if tonight.is_canary(one.series.case_key)] if ours else []
    return drift_words(ours, row_namer(levels.cases), machine=bool(canaries), words=database_words())


def settled(store: Store, found: Comparison, fail_on: str) -> tuple[Comparison, Answer]:
    """With what is accepted, and with whom to ask about what is not; and what it comes to."""
    from bench.judge.acceptances import apply_acceptances
    from bench.judge.answer import FailOn, answer
    from bench.judge.culprits import with_alarms
    from bench.records import utc_now

    verdicts = apply_acceptances(found.verdicts, store.acceptances(), now=utc_now("seconds"))
    comparison = with_alarms(replace(found, verdicts=verdicts), words=database_words())
    return comparison, answer(comparison, FailOn(fail_on))


def _tell(progress: Progress) -> None:
    progress_line(progress.text)
