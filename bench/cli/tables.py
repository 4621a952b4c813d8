"""The tables of a run as a terminal shows them: one line a case, with its value, its spread and its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bench.cli.case_layout import Fitted, Heads, Line, fitted_table, whole_table
from bench.cli.fitting import paragraph, widest_line
from bench.cli.options import SHORT_ID, database_words
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.records import Case, Result, Run, Scalar, TrialKey
    from bench.report.numbers.summary import CaseSummary, Spread


def _axes(cases: Sequence[Case]) -> tuple[list[str], dict[str, Scalar]]:
    """The axes that differ between `cases`, and those that do not with their value."""
    from bench.records import FIXED_AXES

    names = ["workload", *FIXED_AXES, *dict.fromkeys(name for case in cases for name in case.params)]
    differ, same = [], {}
    for name in names:
        values = {case.axis_or_none(name) for case in cases}
        if len(values) > 1:
            differ.append(name)
        else:
            same[name] = values.pop()
    return differ, same


def _spread(value: Spread | None, unit: str) -> tuple[str, str]:
    from bench.report.numbers.units import in_unit, range_in_unit

    if value is None:
        return "", ""
    return in_unit(value.median, unit), range_in_unit(value.low, value.high, unit) if value.n > 1 else ""


def _line(summary: CaseSummary, axes: Sequence[str], memory: str, found: Sequence[str]) -> Line:
    from bench.report.numbers.units import metric_unit
    from bench.suite.axes import spelled_axis

    time, time_range = _spread(summary.values.get("time_s"), "s")
    peak, _ = _spread(summary.values.get(memory), "byte")
    beside = [_spread(summary.values.get(name) if summary.usable else None, metric_unit(name))[0] for name in found]
    counted = sum(summary.counts.values())
    most = summary.counts.get(summary.status, 0)
    state = str(summary.outcome) if most == counted else ", ".join(f"{count} {status}" for status, count in summary.counts.items())
    spelled = (spelled_axis(axis, summary.case.axis_or_none(axis))[1] for axis in axes)
    point = tuple("" if value is None else str(value) for value in spelled)
    rows = summary.counted or [result for result, _ in summary.set_aside]
    result = next(row.id for row in rows if row.status is summary.status)
    return Line(point, summary.label, state, str(counted), time, time_range, peak, tuple(beside), summary.reason or "", result)


def case_table(run: Run, results: Sequence[Result], room: int | None = None) -> str:
    """The cases of `run`, subjects of one point beside each other; axes that never change stand above.

    In `room` columns, where not all would fit: ids of rows go first, and of more than them the last lines say what was left out, and how
    to see it.
    """
    from bench.report.drawing.figures import TITLES
    from bench.report.numbers.findings import found_in, title
    from bench.report.numbers.memory import compared_memory
    from bench.report.numbers.summary import summarize
    from bench.suite.axes import spelled_axis

    summaries = summarize(run, results)
    if not summaries:
        return "no rows yet"
    axes, same = _axes([summary.case for summary in summaries])
    points = list(dict.fromkeys(result.case.point_key for result in sorted(results, key=lambda r: _order(r, axes))))
    summaries.sort(key=lambda s: points.index(s.case.point_key))
    fixed = dict(spelled_axis(name, value) for name, value in same.items())
    head = ", ".join(f"{name}={value}" for name, value in fixed.items() if value is not None)
    memory, found = compared_memory(summaries), found_in(summaries)
    heads = Heads(tuple(spelled_axis(axis, None)[0] for axis in axes), TITLES[memory], tuple(map(title, found)))
    lines = [_line(summary, axes, memory, found) for summary in summaries]
    body = whole_table(heads, lines, ids=True)
    if room is not None and widest_line(body) > room:
        body = whole_table(heads, lines, ids=False)
        if widest_line(body) > room:
            body = _in_room(run, fitted_table(heads, lines, room), room)
    withheld = dict.fromkeys(summary.time_withheld for summary in summaries if summary.usable and summary.time_withheld)
    return "\n".join([paragraph(plain(head), room), "", body, *(paragraph(plain(why), room) for why in withheld)])


def _in_room(run: Run, fitted: Fitted, room: int) -> str:
    words = [f"left out, for want of room: {', '.join(fitted.left_out)}"] if fitted.left_out else []
    words += [f"the same in all rows that have it: {', '.join(fitted.alike)}"] if fitted.alike else []
    if not words:
        return fitted.text
    # A command is never folded: it is there to be copied.
    command = f"every column: bench show {run.id[:SHORT_ID]} --wide{database_words()}"
    return "\n".join([fitted.text, "", *(paragraph(plain(line), room) for line in words), plain(command)])


def _order(result: Result, axes: Sequence[str]) -> tuple[tuple[int, float, str], ...]:
    """Numbers by size, words by the alphabet, so that a sweep reads upwards."""
    keys = []
    for axis in axes:
        value = result.case.axis_or_none(axis)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        keys.append((0, value, "") if isinstance(value, int | float) and number else (1, 0.0, str(value)))
    return tuple(keys)


def status_line(results: Sequence[Result]) -> str:
    """`12 ok, 4 unavailable, 1 set aside`: how many rows ended how, in the order of the list of statuses; excluded ones apart."""
    from bench.records import Status
    from bench.report.numbers.summary import SET_ASIDE

    counts = Counter(result.status for result in results if not result.excluded_reason)
    aside = len(results) - counts.total()
    words = [f"{counts[status]} {status}" for status in Status if counts[status]] + ([f"{aside} {SET_ASIDE}"] if aside else [])
    return ", ".join(words) or "no rows"


def trials_with_row(keys: Iterable[TrialKey]) -> int:
    """How many planned trials have a row: a trial that was measured anew on another device has two and counts once."""
    return len({(case_key, arm, index) for case_key, arm, index, _ in keys})


def answers(run: Run, results: Sequence[Result], *, at_length: bool = False) -> list[str]:
    """What was lowest where, and what is doubtful: a sentence each; at length also how values grow, and who is beaten by nobody."""
    from bench.report.answers.readings import questions, readings
    from bench.report.numbers.layout import sections
    from bench.report.numbers.rates import growth_words
    from bench.report.numbers.summary import summarize
    from bench.report.trust.doubts import doubts
    from bench.report.views.pareto import front_of, front_words

    cases = summarize(run, results)
    lines = []
    for section in sections(run, cases):
        for metric, words in questions(section):
            lines += [
                plain(f"{words[0].lower()}{words[1:]}, {reading.where}: {reading.text}") for reading in readings(section, metric)
            ]
        lines += [plain(f"grows: {line}") for line in growth_words(section) if at_length]
        for facet in section.facets if at_length else ():
            if front := front_of(facet):
                where = f"{facet.title}: " if facet.title else ""
                lines.append(plain(f"{where}{front_words(front, facet, section.swept)}"))
    return lines + [plain(f"doubtful: {doubt.count} {doubt.text}") for doubt in doubts(run, cases)]
