"""Puts trials in order: blocks shuffled by a seed, subjects interleaved within a block, and an honest guess of the minutes."""

from __future__ import annotations

import dataclasses
import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.records import Case, Protocol, Reply, Trial, fingerprint
from bench.run.canaries import canary_cases
from bench.run.options import RunOptions
from bench.run.preflight import PREFLIGHT, preflight
from bench.stats import median

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.store import Store
    from bench.suite import Expansion, Suite

DEFAULT_TRIAL_S = 3.0
"""Guess for a trial of which nothing is known: start, checks and warm-up of a small case, up to three seconds of samples."""
_SERVER_START_S = 5.0
_RUNS_LOOKED_AT = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """Trials in the order in which they will run, and how long that may take."""

    trials: tuple[Trial, ...]
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

    @property
    def blocks(self) -> tuple[tuple[Trial, ...], ...]:
        """The trials of each block, in order."""
        grouped: dict[int, list[Trial]] = {}
        for trial in self.trials:
            grouped.setdefault(trial.block, []).append(trial)
        return tuple(tuple(trials) for trials in grouped.values())

    @property
    def cases(self) -> tuple[Case, ...]:
        """Each case once, in the order of its first trial."""
        return tuple({trial.case.key: trial.case for trial in self.trials}.values())

    @property
    def estimated_s(self) -> float:
        seconds = self.seconds(self.trials)
        return seconds + _SERVER_START_S if seconds else 0.0

    def seconds(self, trials: Sequence[Trial]) -> float:
        """The guess for these trials."""
        return sum(self.trial_s[trial.case.key] for trial in trials)


def make_plan(
    suite: Suite,
    expansion: Expansion,
    options: RunOptions,
    *,
    store: Store | None = None,
    catalogue: Catalogue | None = None,
) -> Plan:
    """The plan of a suite's cases, the canaries first unless the options leave them out.

    The same seed and cases give the same plan, on every machine.
    With `store` minutes are guessed from earlier results; with `catalogue` cases that need no process are known and cost nothing.
    """
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    protocol = protocol_of(suite, options)
    trials = order(expansion.cases, protocol.trials, seed, options.shard)
    if options.canaries and trials:
        later = max(trial.block for trial in trials) + 1
        first = order(canary_cases(expansion.cases), protocol.trials, seed)
        trials = (*(dataclasses.replace(trial, block=later + trial.block) for trial in first), *trials)
    cases = {trial.case.key: trial.case for trial in trials}
    refusals = refused(cases, catalogue) if catalogue else {}
    trial_s, source = estimate({key: case for key, case in cases.items() if key not in refusals}, suite.name, store)
    trial_s |= dict.fromkeys(refusals, 0.0)
    return Plan(trials, seed, protocol, trial_s, source, expansion.excluded, expansion.filtered, refusals)


def refused(cases: Mapping[str, Case], catalogue: Catalogue) -> dict[str, Reply]:
    """By case key, the answers that need no process."""
    answers = {key: preflight(case, catalogue) for key, case in cases.items()}
    return {key: answer for key, answer in answers.items() if answer is not None}


def protocol_of(suite: Suite, options: RunOptions) -> Protocol:
    """The suite's protocol with `--trials` applied."""
    return suite.protocol if options.trials is None else dataclasses.replace(suite.protocol, trials=options.trials)


def order(cases: Sequence[Case], trials: int, seed: int, shard: tuple[int, int] | None = None) -> tuple[Trial, ...]:
    """Blocks (points) in an order drawn from `seed`; within a block A B C, C B A, A B C ... so that drift hits all subjects alike.

    A shard takes every N-th block; blocks keep the numbers that they have in the whole.
    """
    points: dict[str, list[Case]] = {}
    for case in cases:
        points.setdefault(case.point_key, []).append(case)
    blocks = list(points.values())
    random.Random(seed).shuffle(blocks)
    part, parts = shard or (1, 1)
    ordered = []
    for block, subjects in enumerate(blocks):
        if block % parts != part - 1:
            continue
        sequence = [(case, index) for index in range(trials) for case in (subjects if index % 2 == 0 else subjects[::-1])]
        ordered += [Trial(case, index, block, position) for position, (case, index) in enumerate(sequence)]
    return tuple(ordered)


def trial_seed(run_seed: int, trial: Trial) -> int:
    """The seed of a trial's inputs: all subjects of a point see the same numbers, and every index other ones."""
    return int(fingerprint([run_seed, trial.case.point_key, trial.index])[:8], 16) & 0x7FFFFFFF


def estimate(cases: Mapping[str, Case], suite: str, store: Store | None) -> tuple[dict[str, float], str]:
    """Seconds per trial by case key, and in words where they come from: earlier results of this suite, else a default."""
    by_case: dict[str, list[float]] = {}
    by_subject: dict[str, list[float]] = {}
    if store is not None and (runs := store.runs(suite=suite)[:_RUNS_LOOKED_AT]):
        for result in store.results([run.id for run in runs]):
            if result.phase == PREFLIGHT:
                continue
            by_case.setdefault(result.case.key, []).append(result.duration_s)
            by_subject.setdefault(result.case.subject_label, []).append(result.duration_s)
    known = sum(key in by_case for key in cases)
    seconds = {
        key: median(by_case.get(key) or by_subject.get(case.subject_label) or [DEFAULT_TRIAL_S]) for key, case in cases.items()
    }
    if not by_case:
        return seconds, f"guessed at {DEFAULT_TRIAL_S:g} s a trial: there are no earlier results"
    return seconds, f"from earlier results of {known} of {len(cases)} cases"
