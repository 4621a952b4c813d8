"""Tells several runs of one suite apart: what each was asked, in a few words, and which of them a page shows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.records import Run
from bench.report.numbers.summary import TIME, CaseSummary

LONGEST_CHARS = 100
"""Of what was asked; the run's command tells all of it."""
LONGEST_ITEM_CHARS = 40
"""Of one setting, which may be a list of all subjects."""
PRECISION = "protocol."
"""Settings that only change how well a run measures, and not what."""


def asked_words(run: Run) -> str:
    """`profile 8b, world_size=2`: the profile, what was set, and which cases were picked; nothing where none of them was given.

    Nothing either of a run whose options do not say whether it had a profile: of an imported one, or in the data of an older page.
    """
    options = run.options
    if "profile" not in options:
        return ""
    profile = (f"profile {options['profile']}",) if options["profile"] else ()
    items = dict.fromkeys(str(text) for name in ("sets", "filters") for text in options.get(name) or ())
    asked = (_cut(text, LONGEST_ITEM_CHARS) for text in items if not text.startswith(PRECISION))
    return _cut(", ".join((*profile, *asked)), LONGEST_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def suite_words(run: Run) -> str:
    """`Suite zero, profile 8b, world_size=2 · label`."""
    return ", ".join(filter(None, (f"Suite {run.suite}", asked_words(run)))) + (f" · {run.label}" if run.label else "")


def name_in_list(run: Run) -> str:
    """Its label, or else what it was asked."""
    return run.label if run.label and "profile" in run.options else asked_words(run)


def in_shown_order(runs: Sequence[Run], cases: Mapping[str, Sequence[CaseSummary]]) -> list[Run]:
    """Suites as they were asked for; within one first what shows a time, then what has more cases, then the older.

    `cases` by the id of the run.
    """
    suites = {suite: place for place, suite in enumerate(dict.fromkeys(run.suite for run in runs))}

    def rank(run: Run) -> tuple[int, bool, int, str, str]:
        own = cases[run.id]
        return suites[run.suite], not any(TIME in case.values for case in own), -len(own), run.started_at, run.id

    return sorted(runs, key=rank)
