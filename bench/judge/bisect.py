"""Finds which commit or release made a series worse: first whether it is worse at all, then by halves, always beside the good one.

Every candidate is measured in turn with the good version, and lies on the bad side where its whole 99 % interval is beyond half of the
change (in logarithms), on the good side where it is below. More pairs are measured until one holds, or there have been enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import SelectionError
from bench.judge.compare import STATUS, compare
from bench.judge.confirm import OPEN, arms_as_sides
from bench.judge.evidence import load_evidence
from bench.judge.history import find_series, runs_at_rest
from bench.judge.intervals import log_ratio
from bench.judge.place import Place, place_of
from bench.judge.shared_gpu import ALONE_ONLY, disturbed
from bench.judge.thresholds import CONFIDENCE, ERROR_SHARE, FEWEST, MOST_TRIALS, RULES
from bench.judge.verdict import Series, Verdict, Word
from bench.records import BISECT, Result, RevisionItem, Run, Status
from bench.run.bisecting import Found, Side, commit_line, commits, first_bad, full_commit, releases
from bench.run.in_turn import InTurn, VersionFailed, in_turn
from bench.run.progress import Progress, silent
from bench.run.versions import CannotRebuild, Version, at_commit, at_release, current, rebuilt
from bench.stats import median

if TYPE_CHECKING:
    from bench.store import Store

RUNS = 200
GOOD, BAD, HERE = "good", "bad", "here"


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, where, and between what."""

    series: Series
    place: Place
    moving: str
    """The name of what moves."""
    source: Path | None
    """Where its repository is; None for a package."""
    good: str
    bad: str
    """Full hashes of commits, or versions."""

    def revision(self, candidate: str) -> tuple[RevisionItem, ...]:
        """What lies here, with what moves at the candidate."""
        at = at_release if self.source is None else at_commit
        return at(self.place.now, self.moving, candidate)

    def version(self, name: str, candidate: str) -> Version:
        """A candidate, ready to be measured. Raises CannotRebuild."""
        return rebuilt(name, self.revision(candidate), self.place.now, self.place.options.plugins)

    def spelled(self, candidate: str) -> str:
        """A candidate in a line."""
        return f"{self.moving}=={candidate}" if self.source is None else commit_line(self.source, candidate)


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection came to."""

    question: Question
    run_id: str
    difference: Verdict
    """Of the bad side over the good one."""
    found: Found | None
    """None where the sides do not differ, so that there was nothing to look for."""


def ask(store: Store, text: str, good: str, bad: str, *, of: str | None, pairs: int, wait: bool) -> Question:
    """What `bench bisect` was asked. Raises SelectionError for words that mean nothing or several things, and CannotConfirm."""
    series, run = _find(store, text)
    place = place_of(run, reason=BISECT, trials=pairs, wait=wait)
    names = [side.partition("==")[0] for side in (good, bad) if "==" in side]
    if names:
        if len(names) != 2 or names[0] != names[1]:
            raise SelectionError(f"{good} and {bad} are not two versions of one package")
        if names[0] not in {found.item.name for found in place.now if found.item.kind == "package"}:
            raise SelectionError(f"the package {names[0]} is not under test in suite {place.suite.name}: name it in its under_test")
        return Question(series, place, names[0], None, *(side.partition("==")[2] for side in (good, bad)))
    fitting = []
    for found in place.now:
        if found.source is not None and of in (None, found.item.name):
            hashes = [full_commit(found.source, side) for side in (good, bad)]
            if hashes[0] and hashes[1]:
                fitting.append(Question(series, place, found.item.name, found.source, hashes[0], hashes[1]))
    if len(fitting) != 1:
        there = ", ".join(found.item.name for found in place.now) or "nothing"
        several = "more than one thing" if fitting else "nothing"
        raise SelectionError(
            f"{several} under test has both commits {good} and {bad} (under test: {there}). --of NAME chooses; versions of a package are "
            "written package==version"
        )
    return fitting[0]


def _find(store: Store, text: str) -> tuple[Series, Run]:
    """The series whose key begins with `text`, and the newest run that has it."""
    runs = runs_at_rest(store, suite=None, last=RUNS)
    metrics = [*(name for name in RULES if name != ERROR_SHARE), STATUS]
    case_key = find_series(store, runs, text, metrics)
    evidence = load_evidence(store, runs, case_key=case_key)
    by_id = {run.id: run for run in runs}
    found: dict[str, tuple[Series, Run]] = {}
    for row in evidence.trials:
        for metric in metrics:
            series = Series(evidence.cases[case_key], case_key, metric, row.hard_hash, row.method_version, row.arm)
            if series.key.startswith(text):
                run = by_id[row.run_id]
                if series.key not in found or found[series.key][1].started_at < run.started_at:
                    found[series.key] = series, run
    return next(iter(found.values()))


def bisect(
    question: Question,
    store: Store,
    *,
    pairs: int,
    known: Sequence[str] = (),
    progress: Callable[[Progress], None] = silent,
    tell: Callable[[str], None] = lambda _text: None,
) -> Bisection:
    """The first bad candidate between the two sides; `known` are versions of a package to look through.

    Raises SelectionError where good does not come before bad, CannotRebuild or VersionFailed where one of the two is not to be had.
    """
    if question.source is None:
        candidates = releases(question.moving, question.good, question.bad, known)
    else:
        candidates = commits(question.source, question.good, question.bad)
    good, bad = question.version(GOOD, question.good), question.version(BAD, question.bad)
    place = question.place
    arms = {version.name: version.revision for version in (good, bad)}
    arms |= {_arm(candidate): question.revision(candidate) for candidate in candidates[:-1]}
    with in_turn(
        place.suite, store, place.device, place.catalogue, place.options, place.revision, arms,
        planned=2 * pairs * (1 + math.ceil(math.log2(len(candidates)))), progress=progress,
    ) as turns:  # fmt: skip
        tell(f"good: {question.spelled(question.good)}")
        tell(f"bad:  {question.spelled(question.bad)}")
        rows = turns.measure(question.series.case, (good, bad), pairs)
        difference = _difference(store, turns.run_id, question.series)
        while difference.word in OPEN and len(rows) < 2 * MOST_TRIALS:
            rows += turns.measure(question.series.case, (good, bad), pairs, first_pair=len(rows) // 2)
            difference = _difference(store, turns.run_id, question.series)
        tell(f"bad over good: {_told(difference)}")
        if difference.word not in (Word.WORSE, Word.BETTER):
            return Bisection(question, turns.run_id, difference, None)
        turns.leave(bad)
        looker = _Looker(question, turns, good, rows, pairs)

        def look(candidate: str) -> tuple[Side, str]:
            tell(f"looking at {question.spelled(candidate)}")
            side, words = looker.look(candidate)
            tell(f"  {side}: {words}")
            return side, words

        found = first_bad(candidates, look)
    return Bisection(question, turns.run_id, difference, found)


def step(question: Question, store: Store, *, pairs: int, progress: Callable[[Progress], None] = silent) -> tuple[Side, str]:
    """On which side what lies here is, measured in turn with both: for `git bisect run`."""
    place = question.place
    here = current(HERE, place.now, place.options.plugins)
    versions = question.version(GOOD, question.good), here, question.version(BAD, question.bad)
    arms = {version.name: version.revision for version in versions}
    with in_turn(
        place.suite, store, place.device, place.catalogue, place.options, place.revision, arms, planned=3 * pairs, progress=progress
    ) as turns:
        rows = turns.measure(question.series.case, versions, pairs)
        if any(row.status is not Status.OK for row in rows) and question.series.metric != STATUS:
            ended = ", ".join(f"{row.trial.arm} {row.status}" for row in rows[-len(versions) :])
            return Side.UNKNOWN, f"not all of the three ran: {ended}"
        difference = _difference(store, turns.run_id, question.series)
        if difference.word is Word.INVALID:
            return Side.UNKNOWN, f"whether good and bad differ can't be told: {difference.reason}"
        if difference.word not in (Word.WORSE, Word.BETTER):
            return Side.UNKNOWN, f"good and bad do not differ: {_told(difference)}"
        return side_of(rows, rows, question.series.metric, (GOOD, HERE, BAD))


def _arm(candidate: str) -> str:
    return candidate[:12]


def _difference(store: Store, run_id: str, series: Series) -> Verdict:
    evidence = load_evidence(store, [store.find_run(run_id)])
    verdicts = compare(*arms_as_sides(evidence, GOOD, BAD), chosen=True).verdicts
    own = [verdict for verdict in verdicts if verdict.series.metric == series.metric] or list(verdicts)
    if not own:
        raise SelectionError(f"neither side has a row of series {series.key[:12]}")
    return own[0]


def _told(verdict: Verdict) -> str:
    if verdict.ratio is None:
        return f"{verdict.word}: {verdict.reason} ({verdict.first.outcome}; {verdict.second.outcome})"
    interval = verdict.ratio.interval
    within = f" ({interval.low:.3f} to {interval.high:.3f})" if interval else ""
    return f"{verdict.ratio.value:.3f}×{within}, {verdict.word}: {verdict.reason}"


class _Looker:
    """Measures candidates in turn with the good version until each is told, or has had enough pairs."""

    def __init__(self, question: Question, turns: InTurn, good: Version, apart: Sequence[Result], pairs: int) -> None:
        self._question = question
        self._turns = turns
        self._good = good
        self._apart = apart
        self._pairs = pairs
        self._pair = len(apart) // 2

    def look(self, candidate: str) -> tuple[Side, str]:
        """The side of a candidate, and why."""
        try:
            version = self._question.version(_arm(candidate), candidate)
        except CannotRebuild as error:
            return Side.UNKNOWN, str(error)
        rows: list[Result] = []
        side, words = Side.UNKNOWN, ""
        try:
            while side is Side.UNKNOWN and len(rows) < 2 * MOST_TRIALS:
                more = self._turns.measure(self._question.series.case, (self._good, version), self._pairs, first_pair=self._pair)
                self._pair += self._pairs
                rows += more
                side, words = side_of(self._apart, rows, self._question.series.metric, (GOOD, version.name, BAD))
                if any(row.status is not Status.OK for row in more):
                    break
        except VersionFailed as error:
            return Side.UNKNOWN, str(error)
        finally:
            self._turns.leave(version)
        return side, words


def side_of(apart: Sequence[Result], beside: Sequence[Result], metric: str, arms: tuple[str, str, str]) -> tuple[Side, str]:
    """The side of the second of three arms (good, the one in question, bad), and in words why.

    Args:
        apart: rows of good and bad, measured in turn.
        beside: rows of good and the one in question, measured in turn.
    """
    good, asked, bad = arms
    if metric == STATUS:
        return _side_by_status(apart, beside, asked, bad)
    touched = disturbed({row.id: row.conditions for row in (*apart, *beside)}) if metric in ALONE_ONLY else frozenset()
    change, own = (
        _log_of([row for row in rows if row.id not in touched], metric, good, other)
        for rows, other in ((apart, bad), (beside, asked))
    )
    if (change is None or own is None) and touched:
        return Side.UNKNOWN, f"too few numbers: other processes computed on the GPU in {len(touched)} trials"
    if change is None or own is None:
        ended = [row for row in beside if row.trial.arm == asked and row.status is not Status.OK]
        return Side.UNKNOWN, f"it is {ended[0].status}: {ended[0].reason}" if ended else "too few numbers"
    cut = (change[0] + change[1]) / 4  # half of the estimate, which is the middle of its interval
    low, high = sorted(math.copysign(1.0, cut) * bound for bound in own)
    told = f"{math.exp((own[0] + own[1]) / 2):.3f}× the good one ({math.exp(own[0]):.3f} to {math.exp(own[1]):.3f})"
    if low > abs(cut):
        return Side.BAD, told
    if high < abs(cut):
        return Side.GOOD, told
    return Side.UNKNOWN, f"{told}: on neither side of half the change, {math.exp(cut):.3f}×"


def _side_by_status(apart: Sequence[Result], beside: Sequence[Result], asked: str, bad: str) -> tuple[Side, str]:
    own = [row.status for row in beside if row.trial.arm == asked]
    theirs = {row.status for row in apart if row.trial.arm == bad}
    if own and all(status is Status.OK for status in own):
        return Side.GOOD, "it runs"
    if own and own[-1] in theirs:
        return Side.BAD, f"it is {own[-1]}"
    return Side.UNKNOWN, f"it is {own[-1]}, which neither side is" if own else "it has no row"


def _log_of(rows: Sequence[Result], metric: str, first: str, second: str) -> tuple[float, float] | None:
    """The 99 % interval of the logarithm of second over first; None from too few numbers."""
    values: dict[str, list[float]] = {first: [], second: []}
    for row in rows:
        found = [m for m in row.measurements if m.metric == metric and m.scope == "trial"]
        if row.status is Status.OK and row.trial.arm in values and found and (value := median(found[0].samples)) > 0:
            values[row.trial.arm].append(value)
    if min(map(len, values.values())) < FEWEST:
        return None
    return log_ratio([(values[first], values[second])]).bounds(CONFIDENCE)
