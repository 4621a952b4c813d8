"""`bench compare`: holds two sides against each other, row by row, and says what is worse, better, the same, or can't be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bench.cli.fitting import terminal_columns
from bench.cli.options import asked_format, database_option, json_option
from bench.cli.terminal import json_text, note, put, say

if TYPE_CHECKING:
    from bench.judge.answer import Answer
    from bench.judge.compare import Comparison
    from bench.store import Store

FORMATS = ("text", "json", "markdown", "junit", "html")
FORMAT_OF = {".json": "json", ".md": "markdown", ".xml": "junit", ".html": "html"}
"""What the ending of a file says; all others are text."""
F = TypeVar("F", bound=Callable[..., Any])


def verdict_options(function: F) -> F:
    """`--format` and `--json`, `--fail-on`, `--output` and `--all`: what commands that judge have in common."""
    for option in (
        json_option,
        click.option("--all", "everything", is_flag=True, help="Show the rows that are the same, or wait for their turn, as well."),
        click.option(
            "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of the standard output."
        ),
        click.option(
            "--fail-on",
            type=click.Choice(["worse", "ambiguous", "never"]),
            default="worse",
            show_default=True,
            help="Exit with 1 where something is worse; also where it is ambiguous or insufficient; or never.",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            default="text",
            show_default="by the ending of --output, or text",
            help="JSON holds seconds, bytes and every number; Markdown is at most 60 KB; JUnit has a test case a row; HTML is one page.",
        ),
    ):
        function = option(function)
    return function


def render(comparison: Comparison, answer: Answer, format_: str, *, everything: bool, room: int | None = None) -> str:
    """The comparison in one of the formats; as text for a terminal of `room` columns."""
    from bench.cli.verdict_files import as_junit, comparison_data
    from bench.cli.verdicts import as_markdown, as_text

    if format_ == "json":
        return json_text(comparison_data(comparison, answer)) + "\n"
    if format_ == "junit":
        return as_junit(comparison, answer)
    if format_ == "html":
        from bench.cli.options import database_words
        from bench.cli.verdicts import alarm_lines, row_namer, side_line
        from bench.report.outputs.judged import judged_page

        sides = side_line(comparison.first), side_line(comparison.second)
        cases = [one.series.case for one in comparison.verdicts] + [one.series.case for one in comparison.waiting]
        name = row_namer(cases)
        return judged_page(
            comparison, headline=answer.headline, why=answer.why, sides=sides, name=name, alarm=alarm_lines, words=database_words()
        )
    if format_ == "markdown":
        return as_markdown(comparison, answer, everything=everything)
    return as_text(comparison, answer, everything=everything, room=room) + "\n"


def write(text: str, output: Path | None) -> None:
    """To the standard output, or to a file in one step."""
    if output is None:
        put(text)
        return
    from bench.store.exchange import replacing

    with replacing(output) as out:
        out.write(text.encode("utf-8", "backslashreplace"))
    say(str(output))


def write_unjudged(code: int, why: str, output: Path | None, *, banners: Sequence[str] = ()) -> None:
    """The JSON of a comparison that there was none of."""
    from bench.cli.verdict_files import unjudged_data

    write(json_text(unjudged_data(code, why, banners)) + "\n", output)


def judged(store: Store, first: str, second: str, filters: Sequence[str]) -> Comparison:
    """The comparison of the two sides that words name, with what is accepted.

    Raises SelectionError, and of its kind StillGoing for a run in progress.
    """
    from bench.judge.acceptances import apply_acceptances
    from bench.judge.compare import compare as judge
    from bench.judge.evidence import load_evidence
    from bench.judge.noise import load_noise
    from bench.judge.sides import demand_axes, demand_ended, earlier_runs, filtered, find_sides
    from bench.records import utc_now
    from bench.suite import parse_filters

    wanted, now = parse_filters(filters), utc_now("seconds")
    sides = find_sides(store, first, second, now=now)
    demand_ended([run for side in sides for run in side])
    evidence = [load_evidence(store, side) for side in sides]
    demand_axes([case for side in evidence for case in side.cases.values()], wanted)
    noise = load_noise(store, earlier_runs(store, *sides))
    comparison = judge(*(filtered(side, wanted) for side in evidence), noise=noise)
    return replace(comparison, verdicts=apply_acceptances(comparison.verdicts, store.acceptances(), now=now))


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--filter", "filters", multiple=True, metavar="K=V", help="Only cases with this value of an axis. Can be repeated.")
@verdict_options
@database_option
def compare(
    first: str,
    second: str,
    filters: tuple[str, ...],
    format_: str,
    fail_on: str,
    output: Path | None,
    everything: bool,
    database: str,
    as_json: bool,
) -> int:
    """Compare B with A: is anything slower, bigger or wrong?

    A and B are baselines, runs (id, beginning of an id, `latest`), labels, or revisions that were under test (a commit, or
    package==version), looked for in this order.
    Ratios are B over A, of medians over processes; times in s, ms or µs, memory in powers of two. A time is worse where its whole 99 %
    interval lies outside the band and the row stands out among all rows. Exit code 0: nothing is worse; 1: something is; 3: could not
    judge.
    """
    from bench.judge.answer import COULD_NOT_JUDGE, FailOn, answer
    from bench.judge.sides import StillGoing
    from bench.store import Store

    format_ = asked_format(format_, as_json=as_json, output=output, endings=FORMAT_OF)
    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        try:
            comparison = judged(store, first, second, filters)
        except StillGoing as going:
            why = f"could not judge: {going}"
            note(why)
            if format_ == "json":
                write_unjudged(COULD_NOT_JUDGE, why, output)
            return COULD_NOT_JUDGE
    found = answer(comparison, FailOn(fail_on))
    room = terminal_columns() if output is None else None
    write(render(comparison, found, format_, everything=everything, room=room), output)
    return found.exit_code
