"""A comparison as people read it: for a terminal and as Markdown, what is not the same first, with the band, the interval and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bench.cli.fitting import folded_table
from bench.plaintext import markdown_cell, plain
from bench.records import FIXED_AXES, Case

if TYPE_CHECKING:
    from bench.judge.answer import Answer
    from bench.judge.compare import Comparison
    from bench.judge.environment_diff import Difference
    from bench.judge.evidence import Evidence
    from bench.judge.verdict import Ratio, Verdict
    from bench.records import RevisionItem

MARKDOWN_BYTES = 60_000
"""More than a summary of a CI step shows."""
SETTLING_SHOWN = 3
FACTS_SHOWN = 12
RUNS_SHOWN = 3
HEADS = (
    "verdict", "what", "metric", "first", "second", "second / first", "99 % interval", "band", "can show", "n", "effect", "why",
)  # fmt: skip
"""`can show` is the change that would have been seen in four of five cases; `effect` is Cliff's delta, from -1 to 1."""
_RIGHT = (3, 4, 5, 7, 8, 9, 10)


def row_namer(cases: Iterable[Case]) -> Callable[[Case], str]:
    """Names a case by its subject and the axes that differ between `cases`; of many slots by those that differ in its workload."""
    from bench.suite.axes import spelled_axis

    known = {id(case): case for case in cases}.values()
    filled: dict[str, dict[str, set[str]]] = {}
    for case in known:
        for slot, implementation in case.subject.items():
            filled.setdefault(case.workload, {}).setdefault(slot, set()).add(implementation)
    names = ("workload", *FIXED_AXES, *dict.fromkeys(name for case in known for name in case.params))
    differ = [name for name in names if len({repr(case.axis_or_none(name)) for case in known}) > 1]
    if "model" in differ:
        # A model's dimensions follow from its name, and would fill the line.
        models = {repr(case.axis_or_none("model")) for case in known}
        differ = [
            name
            for name in differ
            if name in ("model", *FIXED_AXES)
            or len({(repr(case.axis_or_none("model")), repr(case.axis_or_none(name))) for case in known}) > len(models)
        ]

    def subject(case: Case) -> str:
        slots = filled.get(case.workload, {})
        told = [f"{slot}={name}" for slot, name in sorted(case.subject.items()) if len(slots.get(slot, ())) > 1]
        return " ".join(told) if told and len(case.subject) > 1 else case.subject_label

    def name(case: Case) -> str:
        values = (spelled_axis(axis, case.axis_or_none(axis)) for axis in differ)
        return " ".join((subject(case), *(f"{axis}={value}" for axis, value in values if value is not None)))

    return name


def _number(value: float | None, metric: str) -> str:
    from bench.judge.thresholds import ERROR_SHARE
    from bench.report.numbers.units import digits, in_unit, metric_unit

    if value is None:
        return "–"
    return f"{digits(value * 100)} %" if metric == ERROR_SHARE else in_unit(value, metric_unit(metric))


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    from bench.report.numbers.units import EN_DASH

    if ratio is None:
        return "–", "–"
    within = f"{ratio.interval.low:.3f}{EN_DASH}{ratio.interval.high:.3f}" if ratio.interval else "–"
    return f"{ratio.value:.3f}×", within


def percent(share: float | None) -> str:
    """`2.4 %`, `57 %`, `320 %`."""
    return "–" if share is None else f"{share * 100:{'.0f' if share >= 0.1 else '.2g'}} %"


def _cells(verdict: Verdict, name: str) -> tuple[str, ...]:
    from bench.judge.answer import quiet_word

    metric = verdict.series.metric
    shown = verdict.reader_word if verdict.reader_word == verdict.word else f"{verdict.reader_word} ({verdict.word})"
    shown = quiet_word(verdict) or shown
    why = "; ".join((verdict.reason, *((verdict.accepted,) if verdict.accepted else ()), *verdict.notes))
    if verdict.kind == "status":
        first, second = verdict.first.outcome, verdict.second.outcome
    else:
        first, second = _number(verdict.first.median, metric), _number(verdict.second.median, metric)
    band = "–" if verdict.threshold is None else f"±{percent(verdict.threshold.relative)}"
    least = percent(verdict.smallest_detectable)
    effect = "–" if verdict.effect is None else f"{verdict.effect:+.2f}"
    n = f"{verdict.first.n}/{verdict.second.n}"
    return shown, name, metric, first, second, *_ratio(verdict.ratio), band, least, n, effect, why


def _version(item: RevisionItem) -> str:
    unknown = "(not installed)" if item.kind == "package" else "?"
    return (item.commit or "")[:12] or item.version or item.diff_hash or unknown


def side_line(evidence: Evidence) -> str:
    """One side in a line: what it is called, its runs, when, and of which revision."""
    run = evidence.runs[0]
    revision = ", ".join(f"{item.name} {_version(item)}{' (edited)' if item.dirty else ''}" for item in run.revision)
    ids = ", ".join(run.id for run in evidence.runs[:RUNS_SHOWN]) + (", …" if len(evidence.runs) > RUNS_SHOWN else "")
    started = run.started_at[:19] or "start unknown"
    return f"{evidence.name} (run {ids}, {run.suite}, {started}{', of ' + revision if revision else ''})"


def _fact(difference: Difference) -> str:
    from bench.judge.environment_diff import values_words

    sides = (values_words(values) for values in (difference.first, difference.second))
    return f"{'hardware' if difference.hard else 'environment'}: {difference.name}: {' → '.join(sides)}"


def _totals(comparison: Comparison) -> list[str]:
    lines = []
    for total in comparison.totals:
        left = ", ".join(f"{count} {word}" for word, count in total.left_out.items())
        rows = f"{total.n} row{'s' if total.n > 1 else ''} of both sides" + (f"; left out: {left}" if left else "")
        lines.append(f"{total.workload}, {total.metric}: geometric mean {total.ratio:.3f}× over {rows}")
    return lines


def _preface(comparison: Comparison) -> list[str]:
    facts = [_fact(difference) for difference in comparison.environment]
    if len(facts) > FACTS_SHOWN:
        facts = [*facts[:FACTS_SHOWN], f"{len(facts) - FACTS_SHOWN} facts more (--json has all)"]
    moved = Counter(str(verdict.word) for verdict in comparison.canaries if verdict.ratio is not None)
    canaries = [f"canaries: {', '.join(f'{count} {word}' for word, count in moved.items())}"] if moved else []
    return [*(f"! {banner}" for banner in comparison.banners), *facts, *canaries]


def _shown(comparison: Comparison, *, everything: bool) -> tuple[list[Verdict], str]:
    """The rows to show, and what is said of those that are not."""
    if everything:
        return list(comparison.verdicts), ""
    rows = [verdict for verdict in comparison.verdicts if not _quiet(verdict)]
    hidden = len(comparison.verdicts) - len(rows)
    return rows, f"{hidden} rows without news are not shown (--all shows them)" if hidden else ""


def _quiet(verdict: Verdict) -> bool:
    from bench.judge.answer import quiet_word

    return quiet_word(verdict) is not None or (verdict.word == "same" and verdict.kind == "value")


def alarm_lines(verdict: Verdict, name: str) -> list[str]:
    """Whom to ask about a row of a night, a line each; nothing for a row that raises no alarm."""
    if verdict.alarm is None:
        return []
    bisect = [f"  {verdict.alarm.bisect}"] if verdict.alarm.bisect else []
    return [*alarm_heads(verdict, name), *alarm_facts(verdict), *bisect]


def alarm_heads(verdict: Verdict, name: str) -> list[str]:
    """What an alarm says of the row itself."""
    from bench.judge.acceptances import ENDED, EXCEEDED

    seen = ", measured again in turn" if verdict.confirmed_in else ", by the nights alone" if verdict.screening else ""
    lines = [f"{verdict.word}: {name}, {verdict.series.metric}{_change(verdict)}{seen}"]
    lines += [f"  {verdict.reason}"] if verdict.kind == "status" else []
    return [*lines, *(f"  {note}" for note in verdict.notes if note.startswith((ENDED, EXCEEDED)))]


def alarm_facts(verdict: Verdict) -> list[str]:
    """What an alarm says of what has changed since the last good night: the same for all rows with one cause."""
    from bench.judge.decided import PROVISIONAL

    alarm = verdict.alarm
    if alarm is None:
        return []
    again = f"; measured again in run {verdict.confirmed_in[:13]}" if verdict.confirmed_in else ""
    lines = [f"  last good night {alarm.since[:16]}{again}"]
    lines += [f"  {note}" for note in verdict.notes if note.startswith(PROVISIONAL)]
    lines += [f"  {line}" for line in (*alarm.versions, *alarm.commits)]
    if alarm.more_commits:
        lines.append(f"  and {alarm.more_commits} commits more")
    if not alarm.versions:
        lines.append("  nothing under test has changed since")
    lines += [f"  environment: {fact}" for fact in alarm.environment]
    return [*lines, f"  machine: {alarm.machine}"]


def _change(verdict: Verdict) -> str:
    """What an alarm says of the numbers: the ratio with its interval; without one the numbers too, since a byte is no ratio."""
    if verdict.kind == "status":
        first, second = verdict.first.outcome, verdict.second.outcome
        return f": {second} on both sides" if first == second else f": {first} → {second}"
    told, within = _ratio(verdict.ratio)
    if verdict.ratio is not None and verdict.ratio.interval is not None:
        return f" {told} ({within}, n {verdict.first.n}/{verdict.second.n})"
    before, after, metric = verdict.first.median, verdict.second.median, verdict.series.metric
    if before is None or after is None:
        return f" {told}"
    sides = _number(before, metric), _number(after, metric)
    apart = f", {'+' if after > before else '-'}{_number(abs(after - before), metric)}" if sides[0] == sides[1] else ""
    return f" {told} ({sides[0]} → {sides[1]}{apart})"


def waiting_lines(comparison: Comparison, *, everything: bool) -> list[str]:
    """What a night with a budget left for another night: in a line, or a line each, with the night that judged it last."""
    waiting = comparison.waiting
    if not waiting:
        return []
    rows = f"{len(waiting)} row{'s wait' if len(waiting) > 1 else ' waits'} for another night"
    if not everything:
        return [f"{rows}; the longest was last judged on {waiting[0].last_judged[:10]} (--all has all)"]
    name = row_namer(one.series.case for one in waiting)
    return [f"{rows}:", *(f"  {name(one.series.case)}: last judged on {one.last_judged[:10]}" for one in waiting)]


def _alarms(rows: Sequence[Verdict], name: Callable[[Case], str], left_bytes: int) -> list[str]:
    """Lines of alarms as far as there is room for."""
    found: list[str] = []
    for verdict in rows:
        own = alarm_lines(verdict, name(verdict.series.case))
        left_bytes -= sum(2 * len(line.encode()) + 4 for line in own)
        if left_bytes < 0:
            break
        found += own
    return found


def as_text(comparison: Comparison, answer: Answer, *, everything: bool, room: int | None = None) -> str:
    """For a terminal of `room` columns, None for a file. `everything`: with the rows that are the same."""
    rows, hidden = _shown(comparison, everything=everything)
    name = row_namer(verdict.series.case for verdict in comparison.verdicts)
    lines = [f"first:  {side_line(comparison.first)}", f"second: {side_line(comparison.second)}", *_preface(comparison), ""]
    lines = [plain(line) for line in lines]
    if rows:
        lines += [folded_table(HEADS, [_cells(verdict, name(verdict.series.case)) for verdict in rows], room, right=_RIGHT), ""]
    lines += [plain(line) for line in (*([hidden] if hidden else []), *_totals(comparison))]
    lines += [plain(line) for line in waiting_lines(comparison, everything=everything)]
    for verdict in rows:
        lines += [plain(line) for line in alarm_lines(verdict, name(verdict.series.case))]
    settling = list(dict.fromkeys(verdict.settle for verdict in rows if verdict.settle))
    if settling:
        lines.append("to settle what can't be told, on both sides:")
        lines += [f"  {plain(command)}" for command in settling[:SETTLING_SHOWN]]
        if len(settling) > SETTLING_SHOWN:
            lines.append(f"  … and {len(settling) - SETTLING_SHOWN} commands more (--json has all)")
    return "\n".join([*lines, "", f"{answer.headline}: {plain(answer.why)}"])


def as_markdown(comparison: Comparison, answer: Answer, *, everything: bool) -> str:
    """At most 60 KB, for the summary of a CI step: the answer first, the table folded where it is long."""
    rows, hidden = _shown(comparison, everything=everything)
    name = row_namer(verdict.series.case for verdict in comparison.verdicts)
    head = [f"## {markdown_cell(answer.headline)}", "", f"{markdown_cell(answer.why)}.", ""]
    head += [f"- first: {markdown_cell(side_line(comparison.first))}", f"- second: {markdown_cell(side_line(comparison.second))}"]
    remarks = (
        *_preface(comparison),
        *_totals(comparison),
        *([hidden] if hidden else []),
        *waiting_lines(comparison, everything=everything),
    )
    head += [f"- {markdown_cell(line)}" for line in remarks]
    lines = [f"| {' | '.join(map(markdown_cell, _cells(verdict, name(verdict.series.case))))} |" for verdict in rows]
    start = [f"| {' | '.join(HEADS)} |", "|" + " --- |" * len(HEADS)] if lines else []
    kept: list[str] = []
    left = MARKDOWN_BYTES - sum(len(line.encode()) + 1 for line in (*head, *start)) - 200
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            break
        kept.append(line)
    cut = [f"\n{len(lines) - len(kept)} rows more do not fit here."] if len(kept) < len(lines) else []
    alarms = [
        f"- {markdown_cell(line)}" if line.startswith("  ") else f"\n{markdown_cell(line)}\n" for line in _alarms(rows, name, left)
    ]
    fold = (["<details><summary>Rows</summary>", ""], ["", "</details>"]) if len(kept) > 30 else ([], [])
    return "\n".join([*head, "", *fold[0], *start, *kept, *cut, *fold[1], *alarms]) + "\n"


def counts_by_word(verdicts: Sequence[Verdict]) -> Mapping[str, int]:
    """Rows by verdict, in full."""
    return dict(Counter(str(verdict.word) for verdict in verdicts))
