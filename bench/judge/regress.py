"""Judges a run against the nights before it: a screen of every time, and exact rules for all that has no noise.

*Times.* The median of tonight's processes is screened against the last twenty nights (`bench.judge.screen`). A suspect alone is no finding:
one value in some hundreds is beyond any limit. `bench.judge.confirm` measures it again beside the last good version. Where that cannot be
done a second night has to confirm it: it is worse, or better, where last night was beyond the limit of the nights before it as well, and
tonight is beyond that very limit, so that one odd night proves nothing. That costs a day and divides the rate of false alarms by about
ten. Where the environment has changed since those nights, it stays ambiguous: the code cannot be told from it.

*Memory, sizes, errors* are held against the night whose median is the median of all, so that neither an outlier nor yesterday's growth is
the measure. *Statuses* are held against the last night on which the case ran. What is worse here is worse at once; it is measured again
too, and stays so only if that agrees.

A level that a series has been at and come back from is a known mode (`bench.judge.modes`), and no suspect by itself.

A series with fewer than ten nights is learning. One without a suspect is not called the same: a screen shows no equality. A night with a
budget measures some rows and leaves others for their turn: those are told as waiting, with the night that judged them last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.judge.compare import STATUS, Comparison, changed_method, changed_workload, identity, is_crowded
from bench.judge.environment_diff import compared_environments, differences, environments_of, gpus
from bench.judge.evidence import Evidence, TrialRow
from bench.judge.gone import gone
from bench.judge.left_out import compiled_nothing, disturbed_words, why_left_out
from bench.judge.news import of_night, other_harness, upgraded
from bench.judge.screen import FEWEST, FLOOR, Screening, Sight, screen
from bench.judge.statuses import judge_statuses, leading, outcome
from bench.judge.thresholds import CROWDED, OTHER_GPU, RULES, SPEED, Manner, absolute_floor
from bench.judge.totals import mass_shift, totals
from bench.judge.values import Sides, read
from bench.judge.verdict import Kind, Ratio, Series, SideReading, Threshold, Verdict, Waiting, Word
from bench.records import NIGHTLY, Case, Environment, Run, RunState, Status
from bench.stats import median

NIGHTS = 21
"""Earlier nights of a series that are looked at: a window, and the night that confirms."""
MOST_NIGHTS = 200
"""Earlier runs that are looked at where nights have a budget, so that a series is not in each of them."""

Night = Sequence[TrialRow]


@dataclass(frozen=True, slots=True)
class _Line:
    """One case and arm on one hardware by one method, night by night, tonight last."""

    case: Case
    case_key: str
    arm: str
    nights: tuple[Night, ...]

    def series(self, metric: str) -> Series:
        row = self.nights[-1][0]
        return Series(self.case, self.case_key, metric, row.hard_hash, row.method_version, self.arm)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the nights before had, to tell why a line has none of them."""

    measured: Mapping[tuple[str, str], Collection[tuple[str, int]]]
    """By case and arm, the hashes of hardware and the methods that measured it."""
    identities: Collection[str]
    """Of cases and arms, whatever the version of their workload."""

    @classmethod
    def of(cls, before: Evidence) -> _Known:
        measured: dict[tuple[str, str], set[tuple[str, int]]] = {}
        for row in before.trials:
            measured.setdefault((row.case_key, row.arm), set()).add((row.hard_hash, row.method_version))
        return cls(measured, {identity(before.cases[case_key], arm) for case_key, arm in measured})

    def why_first(self, line: _Line) -> tuple[Word, str]:
        """Of a line without earlier nights, what to call it and why."""
        own = line.nights[-1][0]
        ways = self.measured.get((line.case_key, line.arm), ())
        methods = [method for hard_hash, method in ways if hard_hash == own.hard_hash]
        if methods:
            return Word.CHANGED, changed_method(max(methods), own.method_version)
        if ways:
            return Word.NEW, "the first night of this case on this hardware"
        if identity(line.case, line.arm) in self.identities:
            return Word.CHANGED, changed_workload(line.case)
        return Word.NEW, "the first night of this case"


def regress(before: Evidence, tonight: Evidence) -> Comparison:
    """The judgement of one run against earlier ones of its suite. `before` holds those, oldest first."""
    order = {run.id: place for place, run in enumerate((*before.runs, *tonight.runs))}
    cases = {**before.cases, **tonight.cases}
    environments = {**before.environments, **tonight.environments}
    everything = replace(before, environments=environments, cases=cases)
    known = _Known.of(before)
    verdicts: list[Verdict] = []
    canaries: list[Verdict] = []
    for line in _lines(before, tonight, order, cases):
        into = canaries if tonight.is_canary(line.case_key) else verdicts
        started = {run.id: run.started_at for run in before.runs}
        night_before = started.get(line.nights[-2][0].run_id) if len(line.nights) > 1 else None
        into += [replace(verdict, last_judged=night_before) for verdict in _judged(line, everything, known)]
    rotates = all(is_rotating(run) for run in tonight.runs)
    verdicts += () if rotates else gone(before, tonight)
    last = _last_night(before, tonight)
    yesterday = replace(
        before, environments={row.environment_id: environments[row.environment_id] for row in last}, trials=tuple(last)
    )
    environment = compared_environments(yesterday, tonight) if last else ()
    machine_changed = bool(environment) or (bool(last) and gpus(yesterday) != gpus(tonight))
    shift = mass_shift(verdicts, canaries, machine_changed=machine_changed)
    banners = (
        [f"the environment differs from last night's in {len(environment)} fact{'s' if len(environment) > 1 else ''}"]
        if environment
        else []
    )
    cut_off = [run for run in tonight.runs if run.state is not RunState.FINISHED and not is_rotating(run)]
    banners += [f"tonight's run {run.id[:13]} ended as {run.state}" for run in cut_off]
    banners += [shift.text] if shift else []
    if words := disturbed_words(tonight):
        banners.append(f"{words} of tonight: no time of those is judged, and none is a measure for nights to come")
    first_on = _first_on(before, tonight)
    banners += [first_on] if first_on else []
    last_run = next((run for run in before.runs if last and run.id == last[0].run_id), None)
    news = of_night(before, tonight, last_run, verdicts) if last_run else ()
    harness = other_harness([last_run], tonight.runs) if last_run and not upgraded(last_run, tonight.runs) else None
    banners += [*news, *([harness] if harness else [])]
    return Comparison(
        before, tonight, environment, in_order(verdicts), tuple(canaries), totals(verdicts), shift, tuple(banners),
        _waiting(before, tonight) if rotates else (), first_on=first_on, news=news,
    )  # fmt: skip


def _last_night(before: Evidence, tonight: Evidence) -> list[TrialRow]:
    """The rows of the newest earlier night on some hardware of tonight, else of the newest: runners may have several CPU models."""
    mine = {row.hard_hash for row in tonight.trials}
    on = {row.run_id for row in before.trials if row.hard_hash in mine}
    newest = next((run.id for run in reversed(before.runs) if run.id in on), before.runs[-1].id if before.runs else "")
    return [row for row in before.trials if row.run_id == newest]


def _first_on(before: Evidence, tonight: Evidence) -> str | None:
    """What to say where all of tonight ran on the CPU, on models that no earlier night had."""
    models = [
        {environment.hard.get("cpu_model") for environment in environments_of(evidence, evidence.trials) if _is_cpu(environment)}
        for evidence in (before, tonight)
    ]
    if not models[0] or not models[1] or models[0] & models[1] or not all(map(_is_cpu, environments_of(tonight, tonight.trials))):
        return None
    here, there = (", ".join(sorted(map(str, side))) for side in reversed(models))
    return f"first night on this CPU model ({here}): it learns for itself, since times of another one ({there}) say nothing of it"


def _is_cpu(environment: Environment) -> bool:
    return environment.hard.get("device") == "cpu"


def is_rotating(run: Run) -> bool:
    """Whether a run is a night that measured as much as it had time for."""
    return run.reason == NIGHTLY and run.state is RunState.BUDGET


def in_order(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Worse first, then what is missing, ambiguous and better; what is no news last."""
    return tuple(sorted(verdicts, key=lambda verdict: (_rank(verdict), verdict.series.case_key, verdict.series.metric)))


def _rank(verdict: Verdict) -> int:
    order = (Word.WORSE, Word.MISSING, Word.AMBIGUOUS, Word.BETTER)
    clear = verdict.screening == Sight.CLEAR and verdict.word is Word.AMBIGUOUS
    return len(order) if clear or verdict.word not in order else order.index(verdict.word)


def _lines(before: Evidence, tonight: Evidence, order: Mapping[str, int], cases: Mapping[str, Case]) -> list[_Line]:
    rows: dict[tuple[str, str, str, int], dict[str, list[TrialRow]]] = {}
    for row in (*before.trials, *tonight.trials):
        rows.setdefault((row.case_key, row.arm, row.hard_hash, row.method_version), {}).setdefault(row.run_id, []).append(row)
    ours = {run.id for run in tonight.runs}
    found = []
    for (case_key, arm, *_), by_run in sorted(rows.items()):
        own = [row for run_id in sorted(by_run.keys() & ours) for row in by_run[run_id]]
        if own:
            earlier = tuple(by_run[run_id] for run_id in sorted(by_run.keys() - ours, key=order.__getitem__))
            found.append(_Line(cases[case_key], case_key, arm, (*earlier[-NIGHTS:], own)))
    return found


def _waiting(before: Evidence, tonight: Evidence) -> tuple[Waiting, ...]:
    """The cases of earlier nights that tonight has no row of, the longest waiting first."""
    started = {run.id: run.started_at for run in before.runs}
    here = {(row.case_key, row.arm) for row in tonight.trials}
    last: dict[tuple[str, str], TrialRow] = {}
    for row in before.trials:
        key = row.case_key, row.arm
        if key not in here and not before.is_canary(row.case_key):
            last[key] = max(last.get(key, row), row, key=lambda row: started[row.run_id])
    found = [
        Waiting(Series(before.cases[key[0]], key[0], STATUS, row.hard_hash, row.method_version, key[1]), started[row.run_id])
        for key, row in last.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.last_judged, one.series.case_key)))


def _judged(line: _Line, evidence: Evidence, known: _Known) -> list[Verdict]:
    earlier, own = line.nights[:-1], line.nights[-1]
    if not earlier:
        word, reason = known.why_first(line)
        side = SideReading(0, None, outcome(_counts(own)))
        return [Verdict(line.series(STATUS), word, Kind.STATUS, reason, SideReading(0, None, "no rows"), side)]
    reference = next((night for night in reversed(earlier) if leading(_counts(night)) is Status.OK), earlier[-1])
    outcomes = outcome(_counts(reference)), outcome(_counts(own))
    finding = judge_statuses(_counts(reference), _counts(own))
    if finding is not None:
        first, second = (SideReading(0, None, words) for words in outcomes)
        good = reference[0].run_id if finding.word is Word.WORSE else None
        return [
            Verdict(
                line.series(STATUS), finding.word, Kind.STATUS, finding.reason, first, second, settle=own[0].command, good_run=good
            )
        ]
    found = []
    for metric, rule in RULES.items():
        if metric in SPEED and line.case.interpreted:
            continue
        nights = [night for night in line.nights if _numbers(night, metric)]
        tonight = why_left_out(own, metric)
        if not _numbers(own, metric) or len(nights) < 2:
            found += _not_judged(line, metric, nights, outcomes)
            continue
        if metric == "compile_cold_s" and max(median(_numbers(night, metric)) for night in nights) < rule.amount:
            continue
        verdict = (_screened if rule.manner is Manner.NOISY else _exact)(line, metric, nights, evidence, outcomes)
        found.append(replace(verdict, notes=(*verdict.notes, f"left out of tonight: {tonight}")) if tonight else verdict)
    return found


def _not_judged(line: _Line, metric: str, nights: Sequence[Night], outcomes: tuple[str, str]) -> list[Verdict]:
    """The verdict where others were on the GPU tonight, or on all nights before; none where nobody was. `nights` are those with numbers."""
    *earlier, own = line.nights
    if metric == "compile_cold_s" and compiled_nothing(row for night in line.nights for row in night):
        return []
    sides = [[median(_numbers(night, metric)) for night in some if night in nights] for some in (earlier, [own])]
    first, second = (SideReading(len(side), median(side) if side else None, ran) for side, ran in zip(sides, outcomes, strict=True))
    if why := why_left_out(own, metric):
        reason = f"tonight {why}"
        return [Verdict(line.series(metric), Word.INVALID, Kind.VALUE, reason, first, second, settle=own[0].command)]
    if nights and (without := sum(why_left_out(night, metric) is not None for night in earlier)):
        reason = f"learning: others were on its GPU on all {without} nights before that measured it"
        return [Verdict(line.series(metric), Word.INSUFFICIENT, Kind.VALUE, reason, first, second, screening=str(Sight.LEARNING))]
    return []


def _counts(rows: Night) -> Counter[Status]:
    return Counter(row.status for row in rows)


def _numbers(rows: Night, metric: str) -> list[float]:
    """The usable numbers of one night."""
    found = (row.medians.get(metric) for row in rows)
    return [value for value in found if value is not None and math.isfinite(value) and (value > 0 or metric not in SPEED)]


def _exact(line: _Line, metric: str, nights: Sequence[Night], _: Evidence, outcomes: tuple[str, str]) -> Verdict:
    earlier = sorted((_numbers(night, metric) for night in nights[:-1]), key=median)
    reading = read(Sides(metric, line.case.workload, {"": earlier[(len(earlier) - 1) // 2]}, {"": _numbers(nights[-1], metric)}))
    first = SideReading(reading.n_first, reading.median_first, outcomes[0])
    second = SideReading(reading.n_second, reading.median_second, outcomes[1])
    good = None
    if reading.word is Word.WORSE and reading.median_first is not None and reading.threshold is not None:
        most = reading.median_first + reading.threshold.relative * abs(reading.median_first)
        good = next((night[0].run_id for night in reversed(nights[:-1]) if median(_numbers(night, metric)) <= most), None)
    return Verdict(
        line.series(metric), reading.word, Kind.VALUE, reading.reason, first, second, reading.ratio, reading.threshold,
        effect=reading.effect, notes=reading.notes, good_run=good,
    )  # fmt: skip


def _screened(line: _Line, metric: str, nights: Sequence[Night], evidence: Evidence, outcomes: tuple[str, str]) -> Verdict:
    values = [median(_numbers(night, metric)) for night in nights]
    floor = max(FLOOR, absolute_floor(metric, line.case.workload) / median(values[:-1]), _moved_floor(line.case, nights))
    tonight = two_sided(values, floor)
    word, reason, tonight = _confirmed(values, floor, tonight)
    changed = differences(environments_of(evidence, nights[max(0, len(nights) - 3)]), environments_of(evidence, nights[-1]))
    if word in (Word.WORSE, Word.BETTER) and changed:
        names = ", ".join(difference.name for difference in changed[:5])
        reason = f"{reason}; but {names} changed since: measure the old environment again to tell the code from it"
        word = Word.AMBIGUOUS
    first = SideReading(len(values) - 1, median(values[:-1]), outcomes[0])
    second = SideReading(len(_numbers(nights[-1], metric)), values[-1], outcomes[1])
    return Verdict(
        line.series(metric), word, Kind.VALUE, reason, first, second,
        Ratio(values[-1] / first.median) if first.median else None,
        None if tonight.limit is None else Threshold(tonight.limit - 1, f"screen of {tonight.before} nights"),
        screening=str(tonight.sight), settle=nights[-1][0].command if tonight.sight is Sight.SUSPECT and word is Word.AMBIGUOUS else None,
        good_run=_last_within(nights, values, tonight),
    )  # fmt: skip


def _last_within(nights: Sequence[Night], values: Sequence[float], tonight: Screening) -> str | None:
    """Of a suspect, the run of the last night that was within tonight's limit."""
    if tonight.sight is not Sight.SUSPECT or tonight.ratio is None or tonight.limit is None:
        return None
    centre = values[-1] / tonight.ratio
    for night, value in zip(reversed(nights[:-1]), reversed(values[:-1]), strict=True):
        if (value / centre if tonight.ratio > 1 else centre / value) <= tonight.limit:
            return night[0].run_id
    return None


def _moved_floor(case: Case, nights: Sequence[Night]) -> float:
    """The floor where tonight ran on no GPU of the nights before, or beside others that held the cores; else 0."""
    mine, theirs = ({row.gpu for row in rows} for rows in (nights[-1], [row for night in nights[:-1] for row in night]))
    crowded = case.device == "cpu" and any(map(is_crowded, nights[-2:]))
    return max(CROWDED if crowded else 0.0, 0.0 if mine & theirs else OTHER_GPU)


def two_sided(values: Sequence[float], floor: float) -> Screening:
    """The screen of the last value for the worse, and where that is clear, for the better."""
    worse = screen(values, floor=floor)
    if worse.sight is not Sight.CLEAR or worse.stays:
        return worse
    better = screen([1 / value for value in values], floor=floor)
    if (better.sight is not Sight.SUSPECT and not better.stays) or better.ratio is None:
        return worse
    return replace(better, ratio=1 / better.ratio)


def _confirmed(values: Sequence[float], floor: float, tonight: Screening) -> tuple[Word, str, Screening]:
    """Whether two nights in a row are beyond the limit of those before them, to one side; and the screening that this rests on.

    Where that limit is passed and tonight's own is not (half of its window is at the new level), the night is a suspect all the same: what
    is called worse has a last good version, and is measured again beside it.
    """
    if tonight.sight is Sight.LEARNING:
        return Word.INSUFFICIENT, f"learning: night {tonight.before + 1} of {FEWEST}", tonight
    before = values[:-2]
    last_night, again = two_sided([*before, values[-2]], floor), two_sided([*before, values[-1]], floor)
    both = [sight.ratio > 1 for sight in (last_night, again) if sight.sight is Sight.SUSPECT and sight.ratio is not None]
    if both in ([True, True], [False, False]):
        word = Word.WORSE if both[0] else Word.BETTER
        return (
            word,
            "beyond the limit of the nights before on two nights in a row",
            again if tonight.sight is Sight.CLEAR else tonight,
        )
    if tonight.stays:
        told = f"it was at this level {tonight.stays} times in the last {tonight.before} nights, and came back"
        return Word.AMBIGUOUS, f"screen_clear: in a known mode: {told}; longer there than chance, and it is a suspect", tonight
    if tonight.sight is Sight.CLEAR:
        return Word.AMBIGUOUS, "screen_clear: no suspect, which does not show equality", tonight
    return Word.AMBIGUOUS, "suspect: beyond the limit tonight; a second night confirms it, or not", tonight
