"""`bench verify`: computes what a report states again, from the trial medians inside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import json_option
from bench.cli.terminal import say, say_json, shortened
from bench.errors import StoreError
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.report.recompute.embedded import Checked
    from bench.report.recompute.verify import Difference, Verification

AGREES, DIFFERS, NOTHING_STATED = 0, 1, 3
SHOWN = 20
WIDEST = 160
NOT_LOOKED_AT = (
    "what opens below a row and the data do not repeat: samples and how they are spread, order and duration of trials, logs, "
    "conditions, checks but the nearest, what proved a row, the course of memory over a step"
)
NOT_YET_LOOKED_AT = "charts, and the words between what is stated, since something differs already"


@click.command()
@click.argument("page", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--all", "everything", is_flag=True, help=f"Name all that differ, not only the first {SHOWN}.")
@json_option
def verify(page: Path, everything: bool, as_json: bool) -> int:
    """Recompute what an HTML report states from the trial medians inside it, and say how many numbers and words of each kind agree.

    The page is made again of its data, and what is compared is the text that a reader sees: values, ratios, intervals, verdicts, rates
    and shares, errors, statuses, sentences, doubts, and every view (ladders, frontiers, pairs, memory by cause with its prediction …).
    An edit is named with its row, and what was taken out is missed. Where all that agrees, so must every heading, column head, caption and
    word of a chart, each in its place; that the lines of a chart, the style sheet or the script are not this version's is said, and no
    difference. Whether the medians are those that were measured, only the database can tell: `bench db import FILE` brings them in,
    beside others. Not looked at is what opens below a row and the data do not repeat (samples and how they are spread, order and
    duration of trials, logs, conditions, checks but the nearest, what proved a row, the course of memory over a step).

    Of a page of `bench claims` each claim that has a number of ours is judged again: number, interval, verdict and reason. Of a page of
    `bench compare` or `bench regress` each row: both sides, ratio with interval, and the verdict among all rows; of times that were
    screened against earlier nights medians and ratio. What could not be held is counted; all other words
    of these pages are held against those that their data repeat.

    Exit code 0: all agree; 1: something differs; 2: no report of bench, or one that is damaged; 3: it states nothing.
    """
    from bench.report.recompute.embedded import FINDINGS, VERDICTS, holds
    from bench.report.recompute.verify import verify_page
    from bench.store.page_data import NoPage, page_text

    try:
        text = page_text(page)
        if holds(text, FINDINGS) or holds(text, VERDICTS):
            return _other(page, text, everything=everything, as_json=as_json)
        found = verify_page(text)
    except NoPage as error:
        raise StoreError(f"{page}: {error}") from error
    except OSError as error:
        raise StoreError(f"{page} cannot be read: {error.strerror or error}") from error
    code = NOTHING_STATED if not found.stated else AGREES if found.agrees else DIFFERS
    if as_json:
        say_json(_data(found, code))
    else:
        say(plain(_text(page, found, everything=everything), lines=True))
    return code


def _other(page: Path, text: str, *, everything: bool, as_json: bool) -> int:
    """Verifies a page of claims or of a comparison. Raises NoPage."""
    from bench.report.recompute.embedded import FINDINGS, holds

    if holds(text, FINDINGS):
        from bench.report.recompute.of_claims import verify_claims as check
    else:
        from bench.report.recompute.of_comparison import verify_comparison as check
    found = check(text)
    code = NOTHING_STATED if not found.stated else AGREES if found.agrees else DIFFERS
    if as_json:
        say_json(_other_data(found, code))
    else:
        say(plain(_other_text(page, found, everything=everything), lines=True))
    return code


def _other_text(page: Path, found: Checked, *, everything: bool) -> str:
    lines = [f"{page}: {found.of}", *(f"  {found.agreed[what]} of {count} {what} agree" for what, count in found.stated.items())]
    shown = found.differences if everything else found.differences[:SHOWN]
    for what, where, *both in shown:
        printed, computed = (shortened(one, WIDEST) for one in both)
        lines.append(f"  differs ({what}): {where}: printed {printed!r}, recomputed {computed!r}")
    if len(found.differences) > len(shown):
        lines.append(f"  … and {len(found.differences) - len(shown)} more: --all names them")
    lines += [f"  missing ({shortened(name, WIDEST)})" for name in (found.missing if everything else found.missing[:SHOWN])]
    if not found.stated:
        lines.append("  nothing to verify: no number of the page follows of its data")
    elif found.agrees:
        lines.append("  all of these follow from the medians inside the page")
    lines.append(f"  not recomputed: {'; '.join(found.not_recomputed)}")
    return "\n".join(lines)


def _other_data(found: Checked, code: int) -> dict[str, Any]:
    return {
        "exit_code": code,
        "of": found.of,
        "stated": dict(found.stated),
        "agreed": {what: found.agreed[what] for what in found.stated},
        "differences": [dict(zip(("what", "where", "printed", "recomputed"), one, strict=True)) for one in found.differences],
        "missing": list(found.missing),
        "not_recomputed": list(found.not_recomputed),
    }


def _text(page: Path, found: Verification, *, everything: bool) -> str:
    runs = ", ".join(f"{run.suite} ({run.id})" for run in found.page.runs)
    lines = [f"{page}: {runs or 'no run'}; written by {found.page.written_by}, rendered {found.page.generated_at}"]
    lines += [f"  {found.agreed[what]} of {count} {what} agree" for what, count in found.stated.items()]
    differences = found.differences if everything else found.differences[:SHOWN]
    lines += [_line(difference) for difference in differences]
    if len(found.differences) > len(differences):
        lines.append(f"  … and {len(found.differences) - len(differences)} more: --all names them")
    if found.unstated:
        lines.append(f"  {len(found.unstated)} cases of the data are shown nowhere: {shortened('; '.join(found.unstated), WIDEST)}")
    if found.unsaid:
        shown = found.unsaid if everything else found.unsaid[:SHOWN]
        lines += [f"  missing ({shortened(text, WIDEST)})" for text in shown]
        if len(found.unsaid) > len(shown):
            lines.append(f"  … and {len(found.unsaid) - len(shown)} more are missing: --all names them")
    if not found.stated:
        lines.append("  nothing to verify: the page states no number")
    elif found.agrees:
        lines.append(f"  all of these agree with the {len(found.page.trials)} trials inside the page")
    lines += [f"  beware: {text}" for text in found.unlike or ()]
    if found.stated:
        lines.append(f"  not looked at: {_not_looked_at(found)}")
    return "\n".join(lines)


def _not_looked_at(found: Verification) -> str:
    return NOT_LOOKED_AT if found.unlike is not None else f"{NOT_YET_LOOKED_AT}; {NOT_LOOKED_AT}"


def _line(difference: Difference) -> str:
    printed, computed = (shortened(text, WIDEST) for text in (difference.printed, difference.computed))
    return f"  differs ({difference.what}): {difference.where}: printed {printed!r}, recomputed {computed!r}"


def _data(found: Verification, code: int) -> dict[str, Any]:
    return {
        "exit_code": code,
        "runs": [run.id for run in found.page.runs],
        "written_by": found.page.written_by,
        "rendered_at": found.page.generated_at,
        "stated": dict(found.stated),
        "agreed": {what: found.agreed[what] for what in found.stated},
        "differences": [
            {"what": one.what, "where": one.where, "printed": one.printed, "recomputed": one.computed} for one in found.differences
        ],
        "unstated": list(found.unstated),
        "unsaid": list(found.unsaid),
        "unlike": None if found.unlike is None else list(found.unlike),
        "not_looked_at": _not_looked_at(found),
    }
