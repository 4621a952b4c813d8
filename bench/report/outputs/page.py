"""Builds the HTML page from plain lists of runs and results; the same data and the same `now` give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from bench import __version__
from bench.metrics import METRICS
from bench.records import Result, Run, Status
from bench.report.answers.against import SYMBOLS
from bench.report.answers.readings import ratio_words, value_words
from bench.report.drawing import figures
from bench.report.drawing.parts import pattern_definitions
from bench.report.drawing.shared import shared
from bench.report.numbers import findings, units
from bench.report.numbers.rates import rate_words
from bench.report.numbers.summary import PEAK, SAVED, TIME, TOTAL, CaseSummary, Reach, gather
from bench.report.outputs.own_files import digest_of, static
from bench.report.outputs.thin import thin
from bench.report.recompute.island import as_element, island
from bench.report.recompute.stated import Marks
from bench.report.recompute.told import run_words, scope_ids
from bench.report.trust.method import measured_by
from bench.report.views.panels import Room
from bench.report.views.rows import Depth
from bench.report.views.runs import run_view
from bench.report.views.sharing import pooled
from bench.report.views.told_apart import in_shown_order, name_in_list, suite_words
from bench.run.commands import with_trials

if TYPE_CHECKING:
    from jinja2 import Environment as Templates

    from bench.store.page_data import PageData

SHOWN_READINGS = 6
SHOWN_ADVICE = 6
WHY_CHARS = 160
"""Of a reason beside its command; a page with very many rows repeats below only what is longer."""

STATUS_WORDS: Mapping[Status, str] = {
    Status.OK: "measured, numbers right", Status.INCORRECT: "wrong numbers, or another kernel ran: no time is shown",
    Status.OOM: "out of memory", Status.TIMEOUT: "did not end in time", Status.FAILED: "raised an error",
    Status.CRASHED: "its process died", Status.INVALID: "measured, but the conditions forbid using it",
    Status.UNSUPPORTED: "cannot, by its own declaration or the library's words", Status.UNAVAILABLE: "package or device absent",
}  # fmt: skip


@cache
def _templates() -> Templates:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("bench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        seconds=units.seconds,
        size=units.size,
        ratio=units.ratio,
        scientific=units.scientific,
        fact=units.fact,
        percent=units.percent,
        breaks=breaks,
    )
    made.globals.update(
        value_words=value_words, ratio_words=ratio_words, rate_words=rate_words,
        status_words=STATUS_WORDS, word=figures.status_word, case_word=figures.case_word,
        run_words=run_words, suite_words=suite_words, name_in_list=name_in_list,
        range_words=lambda value, metric: units.range_in_unit(value.low, value.high, units.metric_unit(metric)),
        TIME=TIME, PEAK=PEAK, TOTAL=TOTAL, SAVED=SAVED, finding_text=findings.value_text, patterns=pattern_definitions(),
        larger_error=findings.LARGER_ERROR, other_error=findings.OTHER_ERROR, least_other_error=findings.LEAST_OTHER_ERROR,
        dash_arrays=figures.DASH_ARRAYS, marker_paths=MARKER_PATHS,
        shown_readings=SHOWN_READINGS, shown_advice=SHOWN_ADVICE, vs_symbols=SYMBOLS, with_trials=with_trials, why_chars=WHY_CHARS,
        version=__version__, metrics=METRICS,
    )  # fmt: skip
    return made


def breaks(label: str) -> Markup:
    """A label that may go on in another line after each of its slots' names, and between the fields of a model's shape."""
    return Markup("<wbr>").join(re.split(r"(?<==)|(?<=,)(?! )", label))


MARKER_PATHS: Mapping[str, str] = {
    "o": "M13 6m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "s": "M10 3h6v6h-6z", "D": "M13 2l4 4-4 4-4-4z", "^": "M13 2.5l4 7h-8z",
    "v": "M13 9.5l4-7h-8z", "P": "M11.7 2.5h2.6v2.2h2.2v2.6h-2.2v2.2h-2.6v-2.2h-2.2v-2.6h2.2z",
    "X": "M10.5 2.5l2.5 2 2.5-2 1 1-2 2.5 2 2.5-1 1-2.5-2-2.5 2-1-1 2-2.5-2-2.5z",
    "*": "M13 2l1 2.8h3l-2.4 1.8.9 3-2.5-1.8-2.5 1.8.9-3L9 4.8h3z",
}  # fmt: skip
"""The markers of the charts, for the legend: paths in a box of 26 by 12."""


def render_page(runs: Sequence[Run], results: Sequence[Result], *, now: str, light: bool = False) -> str:
    """One self-contained HTML file: no network, nothing but what it holds.

    `now` (UTC, ISO 8601) is printed as the time of rendering. Rows of runs that are not in `runs` are ignored. Of several runs of a suite
    those that answer come first. `light`: with the charts of the first panels alone and the essentials of each row, for a page that is to
    lie in a repository.
    """
    gathered = _gathered(runs, results)
    runs = in_shown_order(runs, {run.id: gathered[run.id][0] for run in runs})
    gathered = {run.id: gathered[run.id] for run in runs}
    depth = Depth.for_cases(sum(len(cases) for cases, _ in gathered.values()), light=light)
    cases = [case for own, reach in gathered.values() for case in (*own, *reach.canaries)]
    return _written(runs, gathered, depth, now, f"stepbench {__version__}", as_element(island(runs, cases, now, depth), depth))


def page_again(page: PageData, results: Sequence[Result]) -> str:
    """The page that has these data, written anew of them, without them: its charts and all that stands between its numbers are the same."""
    gathered = _gathered(page.runs, results, told=True)
    return _written(page.runs, gathered, Depth.named(page.depth, len(page.cases)), page.generated_at, page.written_by, "")


def _gathered(runs: Sequence[Run], results: Sequence[Result], *, told: bool = False) -> dict[str, tuple[list[CaseSummary], Reach]]:
    by_run: dict[str, list[Result]] = {run.id: [] for run in runs}
    for result in results:
        if result.run_id in by_run:
            by_run[result.run_id].append(result)
    return {run.id: gather(run, by_run[run.id], told=told) for run in runs}


def _written(
    runs: Sequence[Run],
    gathered: Mapping[str, tuple[list[CaseSummary], Reach]],
    depth: Depth,
    now: str,
    written_by: str,
    data: str,
) -> str:
    room = Room.of(depth, len(runs))
    pools = pooled(runs, {run.id: gathered[run.id][0] for run in runs})
    views = [
        run_view(run, *gathered[run.id], number, depth, Room.of(depth, len(runs)) if depth.light else room, pools.get(run.id))
        for number, run in enumerate(runs, 1)
    ]
    cases = [case for own, reach in gathered.values() for case in (*own, *reach.canaries)]
    script = "\n".join(static(name) for name in ("page.js", "rows.js", "parts.js"))
    context: dict[str, Any] = {
        "views": views,
        "looks": sorted(
            {style for view in views for s in (*view.sections, *view.canary_rows) for style in s.styles.values()},
            key=lambda style: style.index,
        ),
        "now": now,
        "written_by": written_by,
        "measured_by": measured_by(cases),
        "depth": depth,
        "css": static("page.css"),
        "script": script,
        "script_hash": digest_of(script),
        "island": data,
        "q": Marks.of(cases, scope_ids(views), full=depth.full),
    }
    page = _templates().get_template("page.html.j2").render(context) + "\n"
    page = page if "url(#part" in page else page.replace(pattern_definitions(), "", 1)
    page = shared(page, style_end="</style>", marks_end="</defs>")
    return page if depth.full else thin(page)
