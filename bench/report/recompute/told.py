"""Everything that a page says in words, scope by scope: what may stand in an element that is marked as said there.

A scope is a run, a section, a panel or a row. The page marks an element with the number of its scope; whoever computes the page again
makes the same views of the data and finds the scope's texts here. Texts are held against each other without spaces, which tags move.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.metrics import METRICS
from bench.records import RevisionItem, Run
from bench.report.answers.advice import Advice
from bench.report.answers.readings import Reading
from bench.report.drawing.figures import status_word
from bench.report.numbers import units
from bench.report.numbers.hardware_work import NAME as HARDWARE
from bench.report.numbers.layout import Section
from bench.report.numbers.memory import CAUSES, by_cause, causes_words
from bench.report.numbers.summary import TIME
from bench.report.views.rows import Depth, Row
from bench.report.views.runs import CanaryView, FacetView, RunView, SectionView
from bench.report.views.scorecard import Score
from bench.report.views.tables import Cell, Table
from bench.report.views.told_apart import name_in_list, suite_words

WORDS, COUNTS, VERDICTS = "sentences", "counts", "verdicts with their intervals"
DOUBTS, REACH, OTHERS, CROSSINGS = "doubts and trust", "rates and shares", "other metrics", "exponents and crossings"
MEMORY, FRONTS = "memory by cause, phases and predictions", "fronts of time and memory"
SCORES, CAPTIONS, HEADS = "lines of scorecards", "denominators", "heads of tables"
HEADINGS, ENVIRONMENT, COMMANDS = "headings", "environment and method", "commands"
KINDS_OF_TABLES = {
    "compat": "pairs",
    "frontier": "frontiers of memory",
    "steps": "steps of ladders, and parts left out",
    "stability": "stability",
    "ranks": "ranks",
    "scaling": "scaling over ranks",
    "stages": "stages by size of the model",
    "planned": "predictions by phase",
    "links": "rates of collectives",
    "energy": "energy",
    "": "errors",
}
"""A table's kind to what its lines are counted among."""
ADDED = frozenset({"scaling", "stages", "planned", "links", "energy"})
"""Kinds that pages of older versions lack, so that a page is only told to lack them."""

_CAUSES = frozenset(f"peak_{cause}_bytes" for cause in CAUSES)


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that a scope says."""

    what: str
    """What it is counted among."""
    text: str
    required: bool = True
    """False where a page may leave it out."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the page with all that it says."""

    ident: str
    """The id of its element."""
    where: str
    """In words."""
    said: tuple[Said, ...]


def scope_ids(views: Sequence[RunView]) -> Iterator[str]:
    """The ids of all scopes, in their order: a mark names one by its position."""
    for view in views:
        yield view.id
        for section in (*view.sections, *view.canary_rows):
            yield section.id
            yield from (facet.id for facet in section.facets)
            yield from (row.id for row in section.rows)


def scopes(views: Sequence[RunView], depth: Depth) -> Iterator[Scope]:
    """All scopes of a page of this depth, in the same order."""
    for view in views:
        yield Scope(view.id, view.run.question or view.run.suite, (*_of_run(view), *_around(view, views[0])))
        for section in (*view.sections, *view.canary_rows):
            yield Scope(section.id, section.section.workload, tuple(_of_section(section, depth)))
            for facet in section.facets:
                yield Scope(
                    facet.id, facet.facet.title or section.section.workload, tuple(_of_facet(facet, section.section.swept, depth))
                )
            for row in section.rows:
                yield Scope(row.id, row.summary.label, tuple(_of_row(section, row)) if depth.full else ())


def squeezed(text: str) -> str:
    """Without spaces."""
    return "".join(text.split())


def _of_run(view: RunView) -> Iterator[Said]:
    run = view.run
    yield Said(HEADINGS, suite_words(run))
    yield Said(HEADINGS, run.question or run.suite)
    began = run.started_at[:16].replace("T", " ")
    for name, text in (("Device", view.device), ("Measured", f"{began} UTC"), ("Under test", _revision(run)), ("Run", run.id)):
        yield Said(HEADINGS, f"{name} {text}")
    counts = " ".join(f"{n} {name}" for one in view.sections if one.judged for name, n in one.judged.counts(TIME) if n)
    # Pages of older versions do not tell the runs of one question apart.
    for words in (run_words(view), ""):
        yield Said(HEADINGS, f"{run.question or run.suite} {name_in_list(run)} {words} {counts}", required=False)
    yield Said(COUNTS, counts_text(view))
    for doubt in view.doubts:
        yield Said(DOUBTS, f"{doubt.count} {doubt.text}")
    for line in view.trust:
        yield Said(DOUBTS, f"{line.name} {line.text}")
    for canary in view.canaries:
        if canary.rate:
            yield Said(REACH, _canary(canary))


def _around(view: RunView, first: RunView) -> Iterator[Said]:
    """What is as in the first run need not be said again."""
    later = view is not first
    around, others = view.surroundings, first.surroundings
    alike = later and around == others
    for item in view.facts:
        yield Said(ENVIRONMENT, " ".join(item), required=not (later and item in first.facts))
    for text in view.method:
        yield Said(ENVIRONMENT, text, required=not (later and text in first.method))
    if later and (missing := around.without(others)):
        yield Said(ENVIRONMENT, f"Known there and not here: {', '.join(missing)}.", required=False)
    for difference in around.differences:
        values = ", ".join(f"{value} ({n})" for value, n in difference.values)
        yield Said(ENVIRONMENT, f"{difference.name} {difference.means} {values}", required=not alike)
    for item in (*around.hard, *around.soft):
        yield Said(ENVIRONMENT, " ".join(item), required=not (later and item in (*others.hard, *others.soft)))


def _revision(run: Run) -> str:
    return ", ".join(map(_item, run.revision)) or "not recorded"


def _item(item: RevisionItem) -> str:
    version = item.version or ("(not installed)" if item.kind == "package" else "")
    return " ".join((item.name, version, (item.commit or "")[:10], "with uncommitted changes" if item.dirty else ""))


def run_words(view: RunView) -> str:
    """`12 cases, 2026-11-30 04:55`: which of several runs of one question it is."""
    began = view.run.started_at[:16].replace("T", " ")
    return f"{view.cases} {'case' if view.cases == 1 else 'cases'}, {began}"


def counts_text(view: RunView) -> str:
    """`108 cases and 2 of the machine itself, 324 of 324 planned trials: 300 ok 24 OOM`."""
    machine = f" and {len(view.canaries)} of the machine itself" if view.canaries else ""
    found = " ".join(f"{n} {status_word(status)}" for status, n in view.trial_counts)
    cases = f"{view.cases} {'case' if view.cases == 1 else 'cases'}{machine}"
    return f"{cases}, {view.trials} of {view.run.planned_trials} planned trials: {found or 'no row yet'}"


def _canary(canary: CanaryView) -> str:
    return " ".join(filter(None, (canary.name, canary.rate, canary.spread, canary.share)))


def _of_section(section: SectionView, depth: Depth) -> Iterator[Said]:
    yield Said(HEADINGS, _axes(section.section), required=bool(section.facets))
    if section.judged:
        for metric in (TIME, section.memory):
            yield Said("counts of verdicts", " ".join(f"{n} {word}" for word, n in section.judged.counts(metric)))
    elif section.unjudged:
        yield Said("counts of verdicts", section.unjudged, required=False)
    for advice in section.advice:
        yield Said(WORDS, _advice(advice, full=depth.full))
    for _, found in section.answers if not depth.light else ():
        for reading in found:
            yield Said(WORDS, _reading(reading))
    for score in section.scores:
        yield Said(SCORES, _score(score))
    for table in (*section.tables, *filter(None, (section.energy,))):
        yield from _of_table(table)
    for roofline in section.rooflines:
        yield Said(CAPTIONS, roofline.sources)


def _axes(section: Section) -> str:
    swept = f"Swept: {section.swept}. " if section.swept else ""
    followers = "".join(f"{text}. " for text in section.followers.values())
    fixed = ", ".join(f"{name} {units.fact(name, value)}" for name, value in section.fixed.items() if value is not None)
    return f"{swept}{followers}Held fixed: {fixed}."


def _advice(advice: Advice, *, full: bool) -> str:
    parts = [advice.where, "" if advice.settled else "not settled", f"{advice.verb[:1].upper()}{advice.verb[1:]} {advice.subject},"]
    parts += [advice.numbers, advice.doubt or ""]
    if advice.setting:
        title, note = advice.setting.title, advice.setting.note
        parts += ["Use this", f"{title[:1].upper()}{title[1:]}{f'; {note}' if note else ''}:", advice.setting.text]
        parts += [advice.setting.command or ""] if full else []
    return " ".join(parts)


def _reading(reading: Reading) -> str:
    return " ".join((reading.where, reading.subject, reading.aside or "", *reading.clauses, reading.doubt or ""))


def _score(score: Score) -> str:
    without = score.without or "–"
    if score.is_baseline:
        return f"{score.label} the baseline {without}"
    ends = (" ".join(end) if end else "–" for end in (score.best, score.worst))
    words = " ".join(f"{n} {word}" for word, n in score.words)
    return " ".join((score.label, score.time or "–", score.memory or "–", f"{score.n} of {score.of}", *ends, words, without))


def _of_table(table: Table) -> Iterator[Said]:
    what, required = KINDS_OF_TABLES[table.kind], table.kind not in ADDED
    yield Said(what, table.title, required)
    if table.lines:
        yield Said(HEADS, " ".join(head.text for head in table.heads), required)
    if table.svg:
        yield Said(what, drawn_words(table.svg), required)
    for line in table.lines:
        yield Said(what, " ".join(map(_cell, line)), required)
    for text in table.words:
        yield Said(what, text, required)


def _cell(cell: Cell) -> str:
    return f"{cell.text} {cell.note}"


def drawn_words(svg: str) -> str:
    """The words in a picture, as a reader sees them."""
    return html.unescape(re.sub(r"<[^>]+>", " ", svg))


def _of_facet(view: FacetView, swept: str | None, depth: Depth) -> Iterator[Said]:
    sizes = ("value" if x is None else f"{swept} {x}".replace("_", " ") for x in view.facet.xs)
    has_matrix = view.has_matrix(depth)
    yield Said(HEADS, " ".join(("subject", *sizes)), required=has_matrix)
    yield from (Said(CAPTIONS, words, required=has_matrix) for words in (view.rated_by, view.utilised_of) if words)
    for label, words, reason in view.nowhere:
        at = f" at every {swept.replace('_', ' ')}" if swept else ""
        yield Said("statuses", f"{label} {words}{at}{f': {reason}' if reason else ''}")
    for text in view.within:
        # Pages of before it was told say nothing of it.
        yield Said(HEADINGS, f"{text}.", required=False)
    for text in view.crossings:
        yield Said(CROSSINGS, text)
    for table in (*view.charts, *view.tables):
        yield from _of_table(table)
    for extra in view.extras:
        what = FRONTS if extra.numbers is None else MEMORY
        yield Said(what, extra.title, required=False)
        for text in extra.words:
            yield Said(what, text, required=False)
        if extra.numbers:
            lines = (tuple(head for head, _ in extra.numbers.heads), *extra.numbers.lines)
            yield from (Said(what, " ".join(line), required=False) for line in lines)


def _of_row(section: SectionView, row: Row) -> Iterator[Said]:
    yield from (Said(HEADINGS, f"{name} {text}") for name, text in row.params)
    yield from (Said(COMMANDS, command, required=False) for command in row.commands[:1])
    for name, text in row.rates:
        # Pages of before it was told say nothing of it.
        yield Said(REACH, f"{text} ({name})", required=name != HARDWARE)
    for flag in row.flags:
        yield Said(DOUBTS, f"{flag}.")
    if section.judged and row.status == row.summary.status:
        yield from _verdicts(section, row)
    for name, text, _ in row.others:
        if name in METRICS and not METRICS[name].harness:
            # A row whose peak is explained in full tells its causes there.
            yield Said(OTHERS, f"{name} {text}", required=name not in _CAUSES)
    if row.has_values and (causes := by_cause(row.summary)):
        yield Said(MEMORY, causes_words(causes), required=False)


def _verdicts(section: SectionView, row: Row) -> Iterator[Said]:
    baseline = section.judged.baseline if section.judged else None
    for metric, name in ((TIME, "Time"), (section.memory, "Memory")):
        found = section.judged.of(row.summary, metric) if section.judged else None
        if found is None:
            continue
        enough = found.enough_trials if row.commands else None
        more = f" With {enough} trials a side it could be told:" if enough else ""
        yield Said(VERDICTS, f"{name} against {baseline or 'the baseline'}: {found.word}, {found.because}.{more}")


def closest(text: str, among: Sequence[str]) -> str:
    """The one of several texts that `text` is most likely to have been."""
    import difflib

    found = difflib.get_close_matches(text[:400], [one[:400] for one in among], n=1, cutoff=0.0)
    return next((one for one in among if found and one.startswith(found[0])), "")
