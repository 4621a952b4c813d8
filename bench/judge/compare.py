"""Judges two sides, series by series: matches their rows, has statuses and numbers judged, and settles all of them together.

Both sides are evidence of runs; within the second, only what the first could have is judged. Rows match by case and arm. A case whose
workload has another version, or that was measured by another method, is `changed`: a change of the harness never reads as a regression.
Canaries are judged apart, since they say whether the machine has moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.judge.environment_diff import Difference, compared_environments, differences, environments_of, gpus
from bench.judge.evidence import Evidence, TrialRow, asks_what_fits
from bench.judge.intervals import adjusted
from bench.judge.left_out import compiled_nothing, disturbed_words, of_sides
from bench.judge.news import other_harness
from bench.judge.scatter import scatter
from bench.judge.sides import ASIDE
from bench.judge.statuses import Counts, judge_statuses, leading, outcome
from bench.judge.thresholds import CROWDED, CYCLES, RULES, SPEED, TIME
from bench.judge.totals import MassShift, Total, mass_shift, totals
from bench.judge.values import ByGpu, Noise, Reading, Sides, flat, read, scatter_band
from bench.judge.verdict import Kind, Series, SideReading, Verdict, Waiting, Word
from bench.records import Case, Run, RunState, Status, fingerprint
from bench.run.commands import with_trials
from bench.stats import median

STATUS = "status"
"""Stands for the metric in the series of a verdict on how trials ended."""

Key = tuple[str, str]
"""Case key and arm."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that two sides say of each other."""

    first: Evidence
    second: Evidence
    environment: tuple[Difference, ...]
    verdicts: tuple[Verdict, ...]
    """Worse first, then by how little is known, same last; within a word by the size of the change."""
    canaries: tuple[Verdict, ...] = ()
    totals: tuple[Total, ...] = ()
    mass_shift: MassShift | None = None
    banners: tuple[str, ...] = ()
    """What a reader must know before any row, a sentence each."""
    waiting: tuple[Waiting, ...] = ()
    """Of a night with a budget: rows that were not measured, the longest waiting first."""
    lost: str | None = None
    """Of a night without the GPU of earlier ones: what that means. It is not judged then, whatever its rows say."""
    first_on: str | None = None
    """Of a night on a CPU that no earlier one was measured on: which it is. All its rows begin to learn."""
    news: tuple[str, ...] = ()
    """Of a night: what a maintainer has to hear even where nothing is worse, on the first morning of it. In the banners as well."""

    def count(self) -> Counter[str]:
        """Rows by the reader's words."""
        return Counter(verdict.reader_word for verdict in self.verdicts)


@dataclass(slots=True)
class _Pending:
    """A verdict that waits for its p among all others."""

    series: Series
    sides: Sides
    reading: Reading
    outcomes: tuple[str, str]
    command: str
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Work:
    """What one pass over the rows found."""

    done: list[Verdict] = field(default_factory=list)
    pending: list[_Pending] = field(default_factory=list)


def compare(first: Evidence, second: Evidence, *, noise: Mapping[str, Noise] | None = None, chosen: bool = False) -> Comparison:
    """The comparison.

    Args:
        noise: by the key of a series, what earlier runs say of its spread.
        chosen: whether the rows are here because something pointed at them, so that each stands by its own p.
    """
    before, after = _grouped(first), _grouped(second)
    cases = {**first.cases, **second.cases}
    same_but_version = _by_identity(after.keys() - before.keys(), cases)
    work, canary_work = _Work(), _Work()
    matched: set[Key] = set()
    for key, rows in before.items():
        into = canary_work if first.is_canary(key[0]) else work
        others = after.get(key)
        if others is None and (other := same_but_version.get(identity(cases[key[0]], key[1]))) is not None:
            matched.add(other)
            into.done.append(_changed(cases[other[0]], other, rows, after[other]))
        elif others is None:
            into.done.append(_missing(cases[key[0]], key, rows, first, second))
        else:
            matched.add(key)
            _pair(into, cases[key[0]], key, rows, others, first, second, noise or {})
    for key, rows in after.items():
        if key not in matched:
            into = canary_work if second.is_canary(key[0]) else work
            into.done.append(_new(cases[key[0]], key, rows))
    _scattered(work)
    verdicts = _settled(work, chosen=chosen)
    canaries = _settled(canary_work, chosen=chosen)
    environment = compared_environments(first, second)
    shift = mass_shift(verdicts, canaries, machine_changed=bool(environment) or gpus(first) != gpus(second))
    banners = (*_banners(first, second, environment), *((shift.text,) if shift else ()))
    return Comparison(first, second, environment, verdicts, canaries, totals(verdicts), shift, banners)


# --- matching -----------------------------------------------------------------------------------------------------------------


def _grouped(evidence: Evidence) -> dict[Key, list[TrialRow]]:
    groups: dict[Key, list[TrialRow]] = {}
    for row in evidence.trials:
        groups.setdefault((row.case_key, row.arm), []).append(row)
    return groups


def identity(case: Case, arm: str) -> str:
    """The same for all versions of a workload."""
    return fingerprint([{**case.point_data(), "workload_version": None, "subject": dict(case.subject)}, arm])


def _by_identity(groups: Iterable[Key], cases: Mapping[str, Case]) -> dict[str, Key]:
    return {identity(cases[key[0]], key[1]): key for key in groups}


def _series(case: Case, key: Key, metric: str, row: TrialRow) -> Series:
    return Series(case, key[0], metric, row.hard_hash, row.method_version, key[1])


def _counts(rows: Iterable[TrialRow]) -> Counts:
    return Counter(row.status for row in rows)


def _side(rows: Sequence[TrialRow]) -> SideReading:
    return SideReading(0, None, outcome(_counts(rows)))


_NO_ROWS = SideReading(0, None, "no rows")


def _changed(case: Case, key: Key, before: Sequence[TrialRow], after: Sequence[TrialRow]) -> Verdict:
    reason = changed_workload(case)
    return Verdict(_series(case, key, STATUS, after[0]), Word.CHANGED, Kind.STATUS, reason, _side(before), _side(after))


def changed_workload(case: Case) -> str:
    """Why a case is not held against one of an earlier version of its workload."""
    return f"the workload {case.workload} has version {case.workload_version} now: what it measures means something else"


def changed_method(before: int, after: int) -> str:
    """Why a row is not held against one that was measured in another way."""
    return f"measured by method {before} and {after}: the harness changed, not the subject"


def _missing(case: Case, key: Key, rows: Sequence[TrialRow], first: Evidence, second: Evidence) -> Verdict:
    unfinished = next((run for run in second.runs if run.state is not RunState.FINISHED), None)
    if (why := second.set_aside.get((rows[0].case_key, rows[0].arm))) is not None:
        reason, counts = f"its rows on the second side are excluded: {why}", False
    elif unfinished is not None:
        reason, counts = f"run {unfinished.id[:13]} stopped before it ({unfinished.state})", False
    elif not same_question(first.runs, second.runs):
        reason, counts = "the second side was not asked for it: another suite, profile or filter", False
    else:
        reason, counts = "the second side has no row of it, though it was asked the same", True
    if leading(_counts(rows)) is not Status.OK:
        counts = False
    return Verdict(_series(case, key, STATUS, rows[0]), Word.MISSING, Kind.STATUS, reason, _side(rows), _NO_ROWS, counts=counts)


def _new(case: Case, key: Key, rows: Sequence[TrialRow]) -> Verdict:
    reason = "only the second side has it: there is nothing to hold it against"
    return Verdict(_series(case, key, STATUS, rows[0]), Word.NEW, Kind.STATUS, reason, _NO_ROWS, _side(rows))


def same_question(first: Sequence[Run], second: Sequence[Run]) -> bool:
    """Whether two sides were asked for the same cases: the same suites as they were expanded, with the same filters and shards.

    What looked at some rows of a run again was not asked for the others.
    """

    def asked(run: Run) -> str:
        again = run.reason if run.reason in ASIDE else None
        return fingerprint([run.suite_data, run.options.get("filters"), run.options.get("shard"), run.device, again])

    return {asked(run) for run in first} == {asked(run) for run in second}


def _pair(
    work: _Work,
    case: Case,
    key: Key,
    before: list[TrialRow],
    after: list[TrialRow],
    first: Evidence,
    second: Evidence,
    noise: Mapping[str, Noise],
) -> None:
    """Judges one case and arm that both sides have."""
    common = {row.hard_hash for row in before} & {row.hard_hash for row in after}
    if not common:
        hard = [
            difference.name
            for difference in differences(environments_of(first, before), environments_of(second, after))
            if difference.hard
        ]
        reason = f"other hardware ({', '.join(hard)})"
        verdict = Verdict(_series(case, key, STATUS, after[0]), Word.INCOMPARABLE, Kind.STATUS, reason, _side(before), _side(after))
        work.done.append(verdict)
        return
    for hard_hash in sorted(common):
        a, b = ([row for row in rows if row.hard_hash == hard_hash] for rows in (before, after))
        methods = {row.method_version for row in a} & {row.method_version for row in b}
        if not methods:
            reason = changed_method(a[0].method_version, b[0].method_version)
            verdict = Verdict(_series(case, key, STATUS, b[0]), Word.CHANGED, Kind.STATUS, reason, _side(a), _side(b))
            work.done.append(verdict)
        for method in sorted(methods):
            own = [[row for row in rows if row.method_version == method] for rows in (a, b)]
            _judge(work, case, key, own[0], own[1], noise)


def _judge(work: _Work, case: Case, key: Key, before: list[TrialRow], after: list[TrialRow], noise: Mapping[str, Noise]) -> None:
    counts = _counts(before), _counts(after)
    finding = judge_statuses(*counts)
    if finding is not None:
        settle = after[0].command if finding.word is Word.INVALID else None
        series = _series(case, key, STATUS, after[0])
        work.done.append(Verdict(series, finding.word, Kind.STATUS, finding.reason, _side(before), _side(after), settle=settle))
        return
    outcomes = outcome(counts[0]), outcome(counts[1])
    notes = tuple(
        f"not all trials of the {side} side ran: {words}"
        for side, words in zip(("first", "second"), outcomes, strict=True)
        if "," in words
    )
    runs = {row.run_id for row in before}, {row.run_id for row in after}
    for metric, rule in RULES.items():
        if metric in SPEED and case.interpreted:
            continue
        sides = [_numbers(rows, metric) for rows in (before, after)]
        left_out = of_sides(before, after, metric)
        if not any(sides) and not left_out:
            continue
        if metric == "compile_cold_s" and left_out and compiled_nothing((*before, *after)):
            continue
        series = _series(case, key, metric, after[0])
        readings = [SideReading(sum(map(len, side.values())), None, words) for side, words in zip(sides, outcomes, strict=True)]
        if not all(sides):
            if any(row.probe for row in before) != any(row.probe for row in after):
                continue  # whoever asks only what fits does not ask for most numbers
            if left_out:
                told = [
                    replace(one, median=median(flat(side)) if side else None) for one, side in zip(readings, sides, strict=True)
                ]
                settle = after[0].command
                work.done.append(Verdict(series, Word.INVALID, Kind.VALUE, "; ".join(left_out), told[0], told[1], settle=settle))
                continue
            word, which = (Word.MISSING, "first") if sides[0] else (Word.NEW, "second")
            reason = f"only the {which} side has this number"
            work.done.append(Verdict(series, word, Kind.VALUE, reason, readings[0], readings[1], counts=metric == TIME))
            continue
        cycles = [_numbers(rows, CYCLES) or None if metric == TIME else None for rows in (before, after)]
        crowded = metric == TIME and case.device == "cpu" and any(map(is_crowded, (before, after)))
        given = Sides(
            metric,
            case.workload,
            sides[0],
            sides[1],
            cycles[0],
            cycles[1],
            runs[0] == runs[1],
            noise.get(series.key, Noise()),
            crowded,
        )
        reading = read(given)
        if metric == "compile_cold_s" and max(reading.median_first or 0.0, reading.median_second or 0.0) < rule.amount:
            continue  # a first call of milliseconds compiled nothing
        own = (*notes, *(f"left out of {words}" for words in left_out))
        work.pending.append(_Pending(series, given, reading, outcomes, after[0].command, own))


def is_crowded(rows: Sequence[TrialRow]) -> bool:
    """Whether other processes held the cores during most of these trials."""
    return sum(row.crowded for row in rows) > len(rows) / 2


def _numbers(rows: Iterable[TrialRow], metric: str) -> ByGpu:
    """Process medians by physical GPU; one that could not be stored as a number stays in sight as infinite."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if metric in row.medians:
            middle = row.medians[metric]
            found.setdefault(row.gpu or "", []).append(float("inf") if middle is None else middle)
    return found


# --- all together -------------------------------------------------------------------------------------------------------------


def _scattered(work: _Work) -> None:
    """Reads the times again that were measured apart, once it is known how far all of them scatter."""
    apart = [entry for entry in work.pending if entry.reading.log_ratio is not None and not entry.sides.interleaved]
    found = scatter([(one.estimate, one.error) for entry in apart if (one := entry.reading.log_ratio) is not None])
    if not found:
        return
    for entry in apart:
        if entry.reading.threshold is None or entry.reading.threshold.relative < scatter_band(found):
            entry.reading = read(replace(entry.sides, scatter=found))


def _settled(work: _Work, *, chosen: bool) -> tuple[Verdict, ...]:
    tested = [entry for entry in work.pending if entry.reading.p is not None]
    p_values = dict(zip(map(id, tested), adjusted([entry.reading.p or 0.0 for entry in tested]), strict=True))
    verdicts = [*work.done]
    for entry in work.pending:
        p_adjusted = None if chosen else p_values.get(id(entry))
        reading = entry.reading.settled(p_adjusted, len(tested))
        verdicts.append(_verdict(entry, reading, p_adjusted))
    return tuple(sorted(verdicts, key=_order))


def _verdict(entry: _Pending, reading: Reading, p_adjusted: float | None) -> Verdict:
    settle = None
    if reading.enough_trials is not None and reading.word in (Word.AMBIGUOUS, Word.INSUFFICIENT):
        settle = with_trials(entry.command, reading.enough_trials)
    elif reading.word is Word.AMBIGUOUS:
        settle = entry.command
    return Verdict(
        entry.series, reading.word, Kind.VALUE, reading.reason,
        SideReading(reading.n_first, reading.median_first, entry.outcomes[0]),
        SideReading(reading.n_second, reading.median_second, entry.outcomes[1]),
        reading.ratio, reading.threshold, reading.p, p_adjusted, reading.effect, reading.smallest_detectable, reading.cycles,
        notes=(*entry.notes, *reading.notes), settle=settle,
    )  # fmt: skip


_RANK = (
    Word.WORSE, Word.MISSING, Word.AMBIGUOUS, Word.INSUFFICIENT, Word.BETTER, Word.INVALID, Word.INCOMPARABLE, Word.CHANGED, Word.NEW,
    Word.SAME,
)  # fmt: skip


def _order(verdict: Verdict) -> tuple[int, int, float, str, str]:
    change = verdict.ratio.value if verdict.ratio else 1.0
    return _RANK.index(verdict.word), verdict.kind is Kind.VALUE, -abs(change - 1), verdict.series.case_key, verdict.series.metric


def _banners(first: Evidence, second: Evidence, environment: Sequence[Difference]) -> Iterator[str]:
    hard = [difference.name for difference in environment if difference.hard]
    soft = [difference.name for difference in environment if not difference.hard]
    if hard:
        yield f"the hardware differs in {', '.join(hard)}: rows of other hardware are incomparable"
    if soft:
        yield f"the environment differs in {len(soft)} fact{'s' if len(soft) > 1 else ''}: a difference may be its doing"
    mine, other = gpus(first), gpus(second)
    if harness := other_harness(first.runs, second.runs):
        yield harness
    if mine and other and not mine & other:
        yield "the sides ran on other physical GPUs, which alone may differ by 5 %: no time within that is told"
    for side, evidence in (("first", first), ("second", second)):
        if any(map(asks_what_fits, evidence.runs)):
            yield f"the {side} side asked only what fits (protocol.probe): its times are of single calls, and none is judged"
        for run in evidence.runs:
            if run.state is not RunState.FINISHED:
                yield f"the {side} side is not whole: run {run.id[:13]} ended as {run.state}"
        if is_crowded(evidence.trials) and any(case.device == "cpu" for case in evidence.cases.values()):
            yield f"other processes held the cores while the {side} side was measured: no time within {CROWDED:.0%} is told on a CPU"
        if words := disturbed_words(evidence):
            yield f"{words} of the {side} side: no time of those is judged"
        if evidence.excluded:
            many = evidence.excluded > 1
            yield f"{evidence.excluded} row{'s' if many else ''} of the {side} side {'are' if many else 'is'} excluded"
    if {run.id for run in first.runs} != {run.id for run in second.runs}:
        yield "the sides were measured apart: what the machine did in between is in every time"
