"""`bench regress`: the nightly judgement: did anything get slower, bigger or wrong since the nights before?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from bench.cli.compare import render, verdict_options, write
from bench.cli.options import database_option
from bench.cli.terminal import note


@click.command()
@click.argument("run", default="latest", required=False)
@verdict_options
@database_option
def regress(run: str, format_: str, fail_on: str, output: Path | None, everything: bool, database: str) -> int:
    """Judge RUN (id, label, commit or `latest`, which is the default) against the finished runs of its suite before it.

    A time is worse where two nights in a row lie beyond the limit of up to twenty nights before them: the first is a suspect, the second
    confirms it. Memory, sizes, errors and statuses are judged at once. With fewer than ten nights a time is still learning. Ratios are of
    medians; times in s, ms or µs, memory in powers of two. Exit code 0: nothing is worse, or all is learning; 1: something is; 3: could
    not judge.
    """
    from bench.judge.acceptances import apply_acceptances
    from bench.judge.answer import COULD_NOT_JUDGE, FailOn, answer
    from bench.judge.evidence import load_evidence
    from bench.judge.regress import NIGHTS
    from bench.judge.regress import regress as judge
    from bench.judge.sides import StillGoing, demand_ended, find_side, nights_before
    from bench.records import utc_now
    from bench.store import Store

    now = utc_now("seconds")
    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        tonight = find_side(store, run, now=now)
        try:
            demand_ended(tonight)
        except StillGoing as going:
            note(f"could not judge: {going}")
            return COULD_NOT_JUDGE
        earlier = nights_before(store, tonight, most=NIGHTS)
        own = load_evidence(store, tonight)
        if not own.trials:
            note(f"could not judge: run {tonight[0].id} has no rows that count")
            return COULD_NOT_JUDGE
        if not earlier:
            note(
                f"run {tonight[0].id} is the first finished night of suite {tonight[0].suite}: all is learning, nothing can be judged"
            )
            return 0
        before = load_evidence(store, earlier)
        accepted = store.acceptances()
    comparison = judge(before, own)
    comparison = replace(comparison, verdicts=apply_acceptances(comparison.verdicts, accepted, now=now))
    found = answer(comparison, FailOn(fail_on))
    write(render(comparison, found, format_, everything=everything), output)
    return found.exit_code
