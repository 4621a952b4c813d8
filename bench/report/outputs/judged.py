"""The page of a judged run: what moved with interval and band, how each series went before, who must do what, and what was not judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from bench import __version__
from bench.judge.changepoints import change_points
from bench.judge.compare import Comparison
from bench.judge.environment_diff import values_words
from bench.judge.evidence import Evidence, TrialRow
from bench.judge.history import FEWEST_FOR_STEPS
from bench.judge.thresholds import RULES, SPEED, Manner
from bench.judge.verdict import CANNOT_TELL, DID_NOT_RUN, Kind, Ratio, Verdict, Word
from bench.records import Case, Json, dump
from bench.report.drawing.svg_marks import Forest, dots, forest_row, sparkline
from bench.report.numbers.units import in_unit, metric_unit
from bench.stats import median

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 300
"""Rows that are drawn; the others are counted."""
SHORT_ID, SHORT_KEY = 13, 12
NEWS = (Word.WORSE, Word.MISSING, Word.AMBIGUOUS, Word.INSUFFICIENT, Word.BETTER, Word.INVALID)


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict, as it is drawn."""

    place: int
    """Among all verdicts of the comparison."""
    word: str
    name: str
    metric: str
    first: str
    second: str
    ratio: str
    interval: str
    n: str
    why: str
    forest: str
    dots: str
    spark: str
    last_judged: str


@dataclass(frozen=True, slots=True)
class Todo:
    """What somebody has to look at, with the commands that come next."""

    title: str
    lines: tuple[str, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A row that nothing was said about."""

    name: str
    metric: str
    why: str
    last_judged: str


def judged_page(
    comparison: Comparison,
    *,
    headline: str,
    why: str,
    sides: tuple[str, str],
    name: Callable[[Case], str],
    alarm: Callable[[Verdict, str], Sequence[str]],
    words: str = "",
) -> str:
    """The page. The same comparison gives the same bytes.

    Args:
        headline, why: what the rows come to.
        sides: each side in a line.
        name: of a case among the others.
        alarm: lines on whom to ask about a row, its command last where it has one.
        words: added to commands, such as ` --db URL`.
    """
    from bench.report.recompute.embedded import VERDICTS, element
    from bench.report.recompute.of_comparison import comparison_data

    places = [place for place, verdict in enumerate(comparison.verdicts) if _is_news(verdict)]
    shown = [comparison.verdicts[place] for place in places]
    forest = Forest.of([verdict for verdict in shown if verdict.ratio is not None])
    names = {place: name(verdict.series.case) for place, verdict in enumerate(comparison.verdicts)}
    rows = [_row(place, comparison, names[place], forest) for place in places[:MOST_ROWS]]
    context = {
        "headline": headline,
        "why": why,
        "sides": sides,
        "banners": comparison.banners,
        "facts": [f"{fact.name}: {values_words(fact.first)} → {values_words(fact.second)}" for fact in comparison.environment],
        "totals": [(total.workload, total.metric, f"{total.ratio:.3f}×", total.n) for total in comparison.totals],
        "rows": rows,
        "scale": forest.scale(),
        "more": max(0, len(shown) - MOST_ROWS),
        "quiet": len(comparison.verdicts) - len(shown),
        "todos": [_todo(verdict, comparison, name(verdict.series.case), alarm, words) for verdict in shown if _asks(verdict)],
        "unjudged": _unjudged(comparison, name),
        "version": __version__,
    }
    data = comparison_data(comparison, names, frozenset(places[:MOST_ROWS]))
    return _template().render({**context, "island": element(VERDICTS, {**data, "page": dump(_undrawn(context))})})


def page_of_words(told: Mapping[str, Json]) -> str:
    """The page whose words are these, without drawings and data. Raises ValueError for what are no words of one."""
    from jinja2 import TemplateError

    try:
        return _template().render({**told, "island": ""})
    except (TemplateError, TypeError, LookupError) as error:
        raise ValueError(f"no words of a page: {error}") from error


def _undrawn(context: Mapping[str, Any]) -> dict[str, Any]:
    rows = [replace(row, forest="", dots="", spark="") for row in context["rows"]]
    return {**context, "rows": rows, "scale": ""}


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("bench.report", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    return made.get_template("judged.html.j2")


def _is_news(verdict: Verdict) -> bool:
    quiet = verdict.screening in ("clear", "learning") and verdict.word in (Word.AMBIGUOUS, Word.INSUFFICIENT)
    return not quiet and (verdict.word in NEWS or verdict.screening == "suspect")


def _asks(verdict: Verdict) -> bool:
    """Whether somebody has to do something: what is worse or missing, what is accepted, and a suspect that is still open."""
    return verdict.word in (Word.WORSE, Word.MISSING) or verdict.alarm is not None


def side_words(value: float | None, metric: str) -> str:
    """The median of a side."""
    return "–" if value is None else in_unit(value, metric_unit(metric))


def ratio_words(ratio: Ratio | None) -> tuple[str, str]:
    """A ratio and its interval."""
    interval = f"{ratio.interval.low:.3f}–{ratio.interval.high:.3f}" if ratio and ratio.interval else "–"
    return f"{ratio.value:.3f}×" if ratio else "–", interval


def _row(place: int, comparison: Comparison, name: str, forest: Forest) -> Row:
    verdict = comparison.verdicts[place]
    metric, ratio = verdict.series.metric, verdict.ratio
    by_status = verdict.kind is Kind.STATUS
    notes = (*((verdict.accepted,) if verdict.accepted else ()), *verdict.notes)
    sides = [_medians(evidence, verdict) for evidence in (comparison.first, comparison.second)]
    nights = [median(values) for values in _by_run(comparison, verdict)]
    return Row(
        place,
        str(verdict.word),
        name,
        metric,
        verdict.first.outcome if by_status else side_words(verdict.first.median, metric),
        verdict.second.outcome if by_status else side_words(verdict.second.median, metric),
        *ratio_words(ratio),
        f"{verdict.first.n}/{verdict.second.n}",
        "; ".join((verdict.reason, *notes)),
        forest_row(forest, verdict) if ratio else "",
        dots(sides[0], sides[1]) if all(sides) else "",
        sparkline(nights, _steps(nights)) if len(nights) > 2 else "",
        (verdict.last_judged or "")[:10],
    )


def _medians(evidence: Evidence, verdict: Verdict) -> list[float]:
    found = (row.medians.get(verdict.series.metric) for row in evidence.trials if _is_of(row, verdict))
    return [value for value in found if value is not None and math.isfinite(value)]


def _is_of(row: TrialRow, verdict: Verdict) -> bool:
    series = verdict.series
    own = series.case_key, series.arm, series.hard_hash, series.method_version
    return (row.case_key, row.arm, row.hard_hash, row.method_version) == own


def _by_run(comparison: Comparison, verdict: Verdict) -> list[list[float]]:
    """The process medians of each run of both sides that has any, oldest first."""
    found: dict[str, list[float]] = {}
    for evidence in (comparison.first, comparison.second):
        for row in evidence.trials:
            value = row.medians.get(verdict.series.metric)
            if value is not None and 0 < value < math.inf and _is_of(row, verdict):
                found.setdefault(row.run_id, []).append(value)
    began = {run.id: run.started_at for evidence in (comparison.first, comparison.second) for run in evidence.runs}
    return [found[run_id] for run_id in sorted(found, key=lambda run_id: began[run_id])]


def _steps(nights: Sequence[float]) -> list[int]:
    """Where the level of a series changes."""
    return [change.index for change in change_points(nights)] if len(nights) >= FEWEST_FOR_STEPS else []


def _todo(verdict: Verdict, comparison: Comparison, name: str, alarm: Callable[[Verdict, str], Sequence[str]], words: str) -> Todo:
    told = [line.strip() for line in alarm(verdict, name)] or [f"{verdict.word}: {name}, {verdict.series.metric}: {verdict.reason}"]
    commands = [verdict.alarm.bisect] if verdict.alarm and verdict.alarm.bisect else []
    lines = [line for line in told[1:] if line not in commands]
    if verdict.accepted:
        lines.append(verdict.accepted)
    elif verdict.word in (Word.WORSE, Word.MISSING):
        first = verdict.good_run or comparison.first.runs[-1].id
        second = comparison.second.runs[0].id
        key = verdict.series.key[:SHORT_KEY]
        commands.append(f'bench accept {first} {second} --series {key} --reason "why it is wanted" --until 30d{words}')
    if verdict.settle and verdict.word is Word.AMBIGUOUS:
        commands.append(verdict.settle)
    return Todo(told[0], tuple(lines), tuple(commands))


def _unjudged(comparison: Comparison, name: Callable[[Case], str]) -> list[Unjudged]:
    """What can't be told or did not run, with the reason; and what waits for its turn."""
    found = [
        Unjudged(name(verdict.series.case), verdict.series.metric, verdict.reason, (verdict.last_judged or "")[:10])
        for verdict in comparison.verdicts
        if verdict.reader_word in (CANNOT_TELL, DID_NOT_RUN) and verdict.word is not Word.MISSING
        and not (verdict.screening == "clear" or _by_interval(verdict))
    ]  # fmt: skip
    waiting = (
        Unjudged(name(one.series.case), "all", "its turn comes another night", one.last_judged[:10]) for one in comparison.waiting
    )
    return [*found, *waiting][:MOST_ROWS]


def _by_interval(verdict: Verdict) -> bool:
    """Whether it was judged, and came out as ambiguous."""
    rule = RULES.get(verdict.series.metric)
    noisy = verdict.series.metric in SPEED or (rule is not None and rule.manner is Manner.NOISY)
    return noisy and verdict.word is Word.AMBIGUOUS and verdict.ratio is not None
