"""What a run will measure: its trials in order, those that only its rows will decide, and an honest guess of the minutes."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.records import Case, Protocol, Reply, Trial
from bench.run.canaries import MOST_TRIALS, canary_cases
from bench.run.foreseen import foreseen
from bench.run.options import RunOptions
from bench.run.order import Share, order
from bench.run.preflight import PREFLIGHT, preflight
from bench.run.search import Group, Searching, Statuses
from bench.stats import median

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.store import Store
    from bench.suite import Expansion, Search, Suite

DEFAULT_TRIAL_S = 3.0
"""Guess for a trial of which nothing is known: start, checks and warm-up of a small case, up to three seconds of samples."""
_SERVER_START_S = 5.0
_RUNS_LOOKED_AT = 5


@dataclass(frozen=True, slots=True)
class Part:
    """What one of several GPUs measures of a run: whole blocks, and canaries of its own."""

    share: Share
    canary_arm: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Trials in the order in which they will run, and how long that may take."""

    trials: tuple[Trial, ...]
    """All of them; of a search those of the first probes, which decide the others."""
    seed: int
    protocol: Protocol
    """With `--trials` applied."""
    trial_s: Mapping[str, float]
    """Guess per case key."""
    estimate_source: str
    """In words: from which earlier results, or that it is a default."""
    excluded: int = 0
    filtered: int = 0
    refusals: Mapping[str, Reply] = field(default_factory=dict)
    """Case key to the answer, where it is known without a process."""
    searching: Searching | None = None

    def in_turn(self, status: Statuses) -> Iterator[tuple[Trial, ...]]:
        """All blocks in order. Those of a search are decided by the statuses of the blocks before, once the next one is asked for."""
        if self.searching is None:
            yield from self.blocks
            return
        yield from (block for block in self.blocks if not self.is_searched(block[0].block))
        for group in self.searching.groups:
            yield from self.searching.blocks(status, group)

    @property
    def blocks(self) -> tuple[tuple[Trial, ...], ...]:
        """The trials of each block that is known from the start, in order."""
        grouped: dict[int, list[Trial]] = {}
        for trial in self.trials:
            grouped.setdefault(trial.block, []).append(trial)
        return tuple(tuple(trials) for trials in grouped.values())

    @property
    def cases(self) -> tuple[Case, ...]:
        """Each case once, in the order of its first trial."""
        return tuple({trial.case.key: trial.case for trial in self.trials}.values())

    @property
    def most_trials(self) -> int:
        """How many trials there can be: more than there will be where something is searched."""
        if self.searching is None:
            return len(self.trials)
        searched = [case for group in self.searching.groups for case in group.cases]
        return len(self.trials) + sum(self.searching.most_probes(case) - 1 for case in searched) * self.searching.trials

    @property
    def estimated_s(self) -> float:
        """Seconds, the server's start included; of a search as if every subject needed all its probes."""
        known = [block for block in self.blocks if not self.is_searched(block[0].block)]
        seconds = sum(map(self.seconds, known))
        seconds += sum(self.left_s(group, lambda trial: None) for group in (self.searching.groups if self.searching else ()))
        return seconds + _SERVER_START_S if seconds else 0.0

    def is_searched(self, block: int) -> bool:
        """Whether the block of this number belongs to a search."""
        return self.searching is not None and any(group.number == block % self.searching.stride for group in self.searching.groups)

    def seconds(self, trials: Sequence[Trial]) -> float:
        """The guess for these trials."""
        return sum(self._guess_s(trial.case) for trial in trials)

    def left_s(self, group: Group, status: Statuses) -> float:
        """The guess for what a group's searches still need at most, given the rows so far."""
        if self.searching is None:
            return 0.0
        left = 0.0
        for case, answers in self.searching.answers(status, group):
            if self.searching.next_value(case, answers) is not None:
                left += self._guess_s(case) * self.searching.trials * max(1, self.searching.most_probes(case) - len(answers))
        return left

    def _guess_s(self, case: Case) -> float:
        """A later probe of a search is guessed like the first one."""
        found = self.trial_s.get(case.key)
        if found is None and self.searching is not None:
            return self.trial_s[self.searching.first(case).key]
        return self.trial_s[case.key] if found is None else found


def make_plan(
    suite: Suite,
    expansion: Expansion,
    options: RunOptions,
    *,
    store: Store | None = None,
    catalogue: Catalogue | None = None,
    part: Part | None = None,
) -> Plan:
    """The plan of a suite's cases, the canaries first unless the options leave them out.

    The same seed and cases give the same plan, on every machine. With `part` only what one of several GPUs measures of it.
    With `store` minutes are guessed from earlier results; with `catalogue` cases that need no process are known and cost nothing.
    """
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    protocol = protocol_of(suite, options)
    trials = order(expansion.cases, protocol.trials, seed, options.shard, part.share if part else None)
    groups = _groups(trials)
    if options.canaries and trials:
        later = max(trial.block for trial in trials) + 1
        first = order(canary_cases(expansion.cases), min(protocol.trials, MOST_TRIALS), seed)
        arm = part.canary_arm if part else "-"
        trials = (*(dataclasses.replace(trial, block=later + trial.block, arm=arm) for trial in first), *trials)
    searching = None
    if expansion.search is not None and trials:
        stride = max(trial.block for trial in trials) + 1
        searching = Searching(expansion.search, groups, protocol.trials, stride, _guesses(expansion.search, groups, protocol))
    cases = {trial.case.key: trial.case for trial in trials}
    refusals = refused(cases, catalogue) if catalogue else {}
    trial_s, source = estimate({key: case for key, case in cases.items() if key not in refusals}, suite.name, store)
    trial_s |= dict.fromkeys(refusals, 0.0)
    return Plan(trials, seed, protocol, trial_s, source, expansion.excluded, expansion.filtered, refusals, searching)


def _groups(trials: Sequence[Trial]) -> tuple[Group, ...]:
    """The blocks of `trials` as groups of a search."""
    subjects: dict[int, list[Case]] = {}
    for trial in trials:
        if trial.index == 0:
            subjects.setdefault(trial.block, []).append(trial.case)
    return tuple(Group(number, tuple(cases)) for number, cases in subjects.items())


def _guesses(search: Search, groups: Sequence[Group], protocol: Protocol) -> dict[str, int]:
    """Where searches begin that ask for nothing but what fits; others go up from the lowest value, where subjects are measured together."""
    if not protocol.probe:
        return {}
    found = {case.key: foreseen(search, case) for group in groups for case in group.cases}
    return {key: value for key, value in found.items() if value is not None}


def refused(cases: Mapping[str, Case], catalogue: Catalogue) -> dict[str, Reply]:
    """By case key, the answers that need no process."""
    answers = {key: preflight(case, catalogue) for key, case in cases.items()}
    return {key: answer for key, answer in answers.items() if answer is not None}


def protocol_of(suite: Suite, options: RunOptions) -> Protocol:
    """The suite's protocol with `--trials` applied."""
    return suite.protocol if options.trials is None else dataclasses.replace(suite.protocol, trials=options.trials)


def estimate(cases: Mapping[str, Case], suite: str, store: Store | None) -> tuple[dict[str, float], str]:
    """Seconds per trial by case key, and in words where they come from: earlier results of this suite, else a default."""
    by_case: dict[str, list[float]] = {}
    by_subject: dict[str, list[float]] = {}
    if store is not None and (runs := store.runs(suite=suite)[:_RUNS_LOOKED_AT]):
        for result in store.results([run.id for run in runs], metrics=()):
            if result.phase == PREFLIGHT or result.duration_s is None:
                continue
            by_case.setdefault(result.case.key, []).append(result.duration_s)
            by_subject.setdefault(result.case.subject_label, []).append(result.duration_s)
    known = sum(key in by_case for key in cases)
    seconds = {
        key: median(by_case.get(key) or by_subject.get(case.subject_label) or [DEFAULT_TRIAL_S]) for key, case in cases.items()
    }
    if not by_case:
        return seconds, f"guessed at {DEFAULT_TRIAL_S:g} s a trial: there are no earlier results"
    return seconds, f"from earlier results of {known} of {len(cases)} cases" if known else "from earlier results of other cases"
