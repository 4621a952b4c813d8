"""Builds the HTML page from plain lists of runs and results; the same data and the same `now` give the same bytes."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from bench import __version__
from bench.records import METHOD_VERSION, METRICS, Result, Run, Scalar, Status
from bench.report import figures, units
from bench.report.answers import FEW_TRIALS, QUESTIONS, Doubt, Reading, doubts, ratio_words, readings, value_words
from bench.report.island import as_script_text, island
from bench.report.layout import MAX_LINES, Facet, Section, sections
from bench.report.matrix import MatrixRow, matrix
from bench.report.rows import Depth, Row, shorten, table_rows
from bench.report.summary import PEAK, SAVED, TIME, CaseSummary, summarize
from bench.report.surroundings import Surroundings, surroundings

if TYPE_CHECKING:
    from jinja2 import Environment as Templates

MAX_PANELS = 24
"""Charts drawn in one page, about 10 to 25 kB each; further panels keep their matrix and say that they have no chart."""
OPEN_FACETS = 4
"""Panels that stand open; the rest is folded with its heading visible."""
SHOWN_READINGS = 6

STATUS_WORDS: Mapping[Status, str] = {
    Status.OK: "measured, numbers right", Status.INCORRECT: "wrong numbers, or another kernel ran: no time is shown",
    Status.OOM: "out of memory", Status.TIMEOUT: "did not end in time", Status.FAILED: "raised an error",
    Status.CRASHED: "its process died", Status.INVALID: "measured, but the conditions forbid using it",
    Status.UNSUPPORTED: "cannot, by its own declaration or the library's words", Status.UNAVAILABLE: "package or device absent",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FacetView:
    id: str
    facet: Facet
    panels: tuple[tuple[str, str], ...]
    """Title and SVG."""
    nowhere: tuple[tuple[str, str, str | None], ...]
    """Subjects without one value here: label, status word, reason."""
    undrawn: str | None
    coinciding: tuple[str, ...]
    """Sentences about lines that lie on each other."""
    matrix: tuple[MatrixRow, ...]
    open: bool


@dataclass(frozen=True, slots=True)
class SectionView:
    id: str
    section: Section
    answers: tuple[tuple[str, tuple[Reading, ...]], ...]
    styles: Mapping[str, figures.Style]
    facets: tuple[FacetView, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RunView:
    id: str
    run: Run
    device: str
    trial_counts: tuple[tuple[Status, int], ...]
    cases: int
    trials: int
    doubts: tuple[Doubt, ...]
    sections: tuple[SectionView, ...]
    surroundings: Surroundings
    protocol: tuple[tuple[str, str], ...]


def _nowhere(facet: Facet) -> tuple[tuple[str, str, str | None], ...]:
    found = []
    for label in facet.labels:
        cells = facet.row(label)
        if all(cell.status is not Status.OK for cell in cells):
            words = ", ".join(dict.fromkeys(figures.status_word(cell.status) for cell in cells))
            found.append((label, words, cells[0].reason))
    return tuple(found)


def _batches(facet: Facet) -> list[list[str]]:
    """Subjects with a value, at most MAX_LINES together; the baseline stands in each batch."""
    drawn = [label for label in facet.labels if any(cell.status is Status.OK for cell in facet.row(label))]
    if len(drawn) <= MAX_LINES:
        return [drawn] if drawn else []
    base = [facet.baseline] if facet.baseline in drawn and facet.baseline else []
    rest = [label for label in drawn if label not in base]
    step = MAX_LINES - len(base)
    return [base + rest[start : start + step] for start in range(0, len(rest), step)]


def _coinciding(facet: Facet) -> tuple[str, ...]:
    return tuple(
        f"{', '.join(shorten(label, 40) for label in group)}: lines of {figures.TITLES[metric]} lie on each other"
        for metric in (TIME, PEAK)
        for labels in _batches(facet)
        for group in figures.coinciding(facet, labels, metric)
    )


def _panels(
    facet: Facet, section: Section, chosen: dict[str, figures.Style], prefix: str, room: int
) -> tuple[list[tuple[str, str]], str | None]:
    if not section.swept or len(facet.xs) < 2:
        return [], "One size only, so there is no chart."
    batches = _batches(facet)
    if not batches:
        return [], "No subject has a value here, so there is no chart."
    if room < 2 * len(batches):
        return [], f"This page draws {MAX_PANELS} charts at most; the numbers of this panel are in the matrix."
    found = []
    for number, labels in enumerate(batches, 1):
        part = f" ({number} of {len(batches)})" if len(batches) > 1 else ""
        for metric in (TIME, PEAK):
            svg = figures.panel(facet, labels, metric, swept=section.swept, chosen=chosen, prefix=f"{prefix}{number}{metric[0]}")
            if svg:
                found.append((f"{figures.TITLES[metric].capitalize()}{part}", svg))
    return found, None if found else "No subject has a value here, so there is no chart."


def _section_view(section: Section, ident: str, rows: Sequence[Row], drawn: int) -> tuple[SectionView, int]:
    chosen = figures.styles(section.labels)
    row_ids: dict[tuple[str, str], str] = {}
    for row in rows:
        row_ids.setdefault((row.summary.case.key, row.summary.arm), row.id)
    views = []
    for number, facet in enumerate(section.facets, 1):
        panels, undrawn = _panels(facet, section, chosen, f"{ident}f{number}", MAX_PANELS - drawn)
        drawn += len(panels)
        views.append(
            FacetView(
                f"{ident}f{number}",
                facet,
                tuple(panels),
                _nowhere(facet),
                undrawn,
                _coinciding(facet) if panels else (),
                matrix(facet, section.swept, row_ids),
                number <= OPEN_FACETS,
            )
        )
    answers = tuple((words, tuple(found)) for metric, words in QUESTIONS if (found := readings(section, metric)))
    return SectionView(ident, section, answers, chosen, tuple(views), tuple(rows)), drawn


def device_words(run: Run, hard: Mapping[str, Scalar]) -> str:
    """The device of a run in a few words, from its hard facts."""
    model = next(
        (str(hard[key]) for key in ("gpu", "gpu_model", "gpu_name", "cpu_model", "cpu", "model", "name") if hard.get(key)), ""
    )
    threads = hard.get("threads")
    words = [run.device if not model else f"{model} ({run.device})"]
    if threads is not None:
        words.append("1 thread" if threads == 1 else f"{threads} threads")
    return ", ".join(words)


def _run_view(
    run: Run, results: Sequence[Result], cases: Sequence[CaseSummary], number: int, depth: Depth, drawn: int
) -> tuple[RunView, int]:
    own = [result for summary in cases for result in summary.counted]
    around = surroundings(own)
    views = []
    for position, section in enumerate(sections(run, cases), 1):
        view, drawn = _section_view(section, f"s{number}-{position}", table_rows(section, around.usual, depth), drawn)
        views.append(view)
    counts = Counter(result.status for result in own)
    return RunView(
        id=f"run{number}",
        run=run,
        device=device_words(run, around.usual),
        trial_counts=tuple((status, counts[status]) for status in Status if counts[status]),
        cases=len(cases),
        trials=len(own),
        doubts=tuple(doubts(run, cases)),
        sections=tuple(views),
        surroundings=around,
        protocol=tuple((name, units.fact(name, value)) for name, value in units.flatten(run.suite_data.get("protocol", {}))),
    ), drawn


@cache
def _static(name: str) -> str:
    return (files("bench.report") / "static" / name).read_text(encoding="utf-8")


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
        sort_number=_sort_number,
    )
    made.globals.update(
        value_words=value_words, ratio_words=ratio_words, status_words=STATUS_WORDS, word=figures.status_word,
        range_words=lambda value, metric: units.range_in_unit(value.low, value.high, units.metric_unit(metric)),
        TIME=TIME, PEAK=PEAK, SAVED=SAVED, dash_arrays=figures.DASH_ARRAYS, marker_paths=MARKER_PATHS,
        shown_readings=SHOWN_READINGS, version=__version__, method_version=METHOD_VERSION, metrics=METRICS, few_trials=FEW_TRIALS,
    )  # fmt: skip
    return made


MARKER_PATHS: Mapping[str, str] = {
    "o": "M13 6m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "s": "M10 3h6v6h-6z", "D": "M13 2l4 4-4 4-4-4z", "^": "M13 2.5l4 7h-8z",
    "v": "M13 9.5l4-7h-8z", "P": "M11.7 2.5h2.6v2.2h2.2v2.6h-2.2v2.2h-2.6v-2.2h-2.2v-2.6h2.2z",
    "X": "M10.5 2.5l2.5 2 2.5-2 1 1-2 2.5 2 2.5-1 1-2.5-2-2.5 2-1-1 2-2.5-2-2.5z",
    "*": "M13 2l1 2.8h3l-2.4 1.8.9 3-2.5-1.8-2.5 1.8.9-3L9 4.8h3z",
}  # fmt: skip
"""The markers of the charts, for the legend: paths in a box of 26 by 12."""


def _sort_number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def render_page(runs: Sequence[Run], results: Sequence[Result], *, now: str) -> str:
    """One self-contained HTML file: no network, nothing but what it holds.

    `now` (UTC, ISO 8601) is printed as the time of rendering. Rows of runs that are not in `runs` are ignored.
    """
    by_run: dict[str, list[Result]] = {run.id: [] for run in runs}
    for result in results:
        if result.run_id in by_run:
            by_run[result.run_id].append(result)
    summaries = {run.id: summarize(run, by_run[run.id]) for run in runs}
    depth = Depth.for_cases(sum(len(cases) for cases in summaries.values()))
    views = []
    drawn = 0
    for number, run in enumerate(runs, 1):
        view, drawn = _run_view(run, by_run[run.id], summaries[run.id], number, depth, drawn)
        views.append(view)
    script = _static("page.js").strip()
    context: dict[str, Any] = {
        "views": views,
        "now": now,
        "depth": depth,
        "css": _static("page.css").strip(),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "island": as_script_text(island(runs, [case for cases in summaries.values() for case in cases], now)),
    }
    return _templates().get_template("page.html.j2").render(context) + "\n"
