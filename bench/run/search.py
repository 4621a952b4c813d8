"""Finds the largest value of an axis that fits in memory: which value to try next, and the blocks that this makes.

A *group* is a point without the searched axis, with its subjects. It goes in rounds. In each, every subject whose search has not ended
asks for one value; those that ask for the same one make a block, so that they are measured beside each other as in any plan. All that
decides the next round is the statuses of the rows so far: a run that is taken up again finds its way by its rows, and so does a report.

A search may begin at a guess instead of the lowest value. It then goes away from the guess, twice as far each time, until it has a value
that fits and one that does not: a good guess costs two or three probes.

What fits is `ok` or `invalid` (measured under bad conditions, yet it ran); what does not is `oom`. Any other status ends the search of
that subject, because nothing follows from it for larger values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from bench.records import Case, Status, Trial
from bench.run.order import interleaved

if TYPE_CHECKING:
    from bench.suite.model import Search

FITS = (Status.OK, Status.INVALID)
RESOLUTION = 8
"""Without a step the gap is closed down to the value that fits divided by this."""

Statuses = Callable[[Trial], Status | None]
"""The status of a trial's row; None where it has none."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """What the probes of one subject have found."""

    largest_ok: int | None
    """The largest value that fits."""
    smallest_oom: int | None
    """The smallest value that runs out of memory; None: none did."""
    ended_by: tuple[int, Status] | None = None
    """The value and status that ended the search before its answer."""


@dataclass(frozen=True, slots=True)
class Group:
    """A point without the searched axis, and its subjects at the lowest value."""

    number: int
    cases: tuple[Case, ...]
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Searching:
    """The searches of a plan, in order."""

    search: Search
    groups: tuple[Group, ...]
    trials: int
    """Of each probe."""
    stride: int
    """Blocks of one group have numbers this far apart, so that no two groups share one."""
    guesses: Mapping[str, int] = field(default_factory=dict)
    """Key of a subject's case at the lowest value to the value that is probed first; that lowest one where there is none."""

    def most_probes(self, case: Case) -> int:
        """Of the subject with this case at the lowest value."""
        return most_probes(self.search, self.guesses.get(case.key))

    def next_value(self, case: Case, answers: Mapping[int, Status]) -> int | None:
        """The value to probe next of the subject with this case at the lowest value; None where its search has ended."""
        return next_value(self.search, answers, self.guesses.get(case.key))

    def has(self, case: Case) -> bool:
        """Whether the case may be a probe: it has the searched axis."""
        return isinstance(case.params.get(self.search.axis), int)

    def first(self, case: Case) -> Case:
        """The case of the first probe of the search that `case` belongs to."""
        return at_value(case, self.search.axis, self.search.start)

    def group_of(self, trial: Trial) -> Group | None:
        """The group whose block the trial is in; None for one that is not searched, such as a canary."""
        return next((group for group in self.groups if group.number == trial.block % self.stride), None)

    def blocks(self, status: Statuses, group: Group) -> Iterator[tuple[Trial, ...]]:
        """The blocks of a group, each decided by the statuses of those before it.

        Ends with the first block that has a trial without a row when the next one is asked for.
        """
        answers: list[dict[int, Status]] = [{} for _ in group.cases]
        number = group.number
        while True:
            wanted: dict[int, list[int]] = {}
            for place, known in enumerate(answers):
                value = self.next_value(group.cases[place], known)
                if value is not None:
                    wanted.setdefault(value, []).append(place)
            if not wanted:
                return
            for value, places in sorted(wanted.items()):
                cases = [at_value(group.cases[place], self.search.axis, value) for place in places]
                block = interleaved(cases, self.trials, number, attempt=group.attempt)
                yield block
                number += self.stride
                for place, case in zip(places, cases, strict=True):
                    found = outcome([status(trial) for trial in block if trial.case is case])
                    if found is None:
                        return
                    answers[place][value] = found

    def answers(self, status: Statuses, group: Group) -> list[tuple[Case, dict[int, Status]]]:
        """The statuses by value that each subject of a group has so far, with its first case."""
        found: dict[str, dict[int, Status]] = {}
        for block in self.blocks(status, group):
            for case in {trial.case.key: trial.case for trial in block}.values():
                answer = outcome([status(trial) for trial in block if trial.case is case])
                if answer is not None:
                    found.setdefault(self.first(case).key, {})[value_of(case, self.search.axis)] = answer
        return [(case, found.get(case.key, {})) for case in group.cases]


def at_value(case: Case, axis: str, value: int) -> Case:
    """The case with another value of a parameter."""
    return dataclasses.replace(case, params={**case.params, axis: value})


def value_of(case: Case, axis: str) -> int:
    """The case's value of the searched axis. Raises ValueError where it has none that is a whole number."""
    value = case.params.get(axis)
    if not isinstance(value, int):
        raise ValueError(f"{axis} of a probe must be a whole number, not {value!r}")
    return value


def outcome(statuses: Sequence[Status | None]) -> Status | None:
    """What the trials of one probe say together: `oom` if one did, else what failed, else `ok`; None where one is still to come."""
    if None in statuses:
        return None
    known = [status for status in statuses if status is not None]
    if Status.OOM in known:
        return Status.OOM
    return next((status for status in known if status not in FITS), Status.OK)


def frontier(answers: Mapping[int, Status]) -> Frontier:
    """What follows from a subject's statuses by value."""
    fits = [value for value, status in answers.items() if status in FITS]
    oom = [value for value, status in answers.items() if status is Status.OOM]
    other = [(value, status) for value, status in answers.items() if status not in FITS and status is not Status.OOM]
    return Frontier(max(fits, default=None), min(oom, default=None), min(other, default=None))


def spell_frontier(search: Search, found: Frontier) -> str:
    """`seq_len 4096 fits, 5120 does not`: where a search ended, in words."""
    if found.ended_by is not None:
        value, status = found.ended_by
        known = f"; {found.largest_ok} fits" if found.largest_ok is not None else ""
        return f"the search ends at {search.axis} {value}, which is {status}{known}"
    if found.largest_ok is None:
        return f"not even {search.axis} {found.smallest_oom} fits"
    if found.smallest_oom is None:
        return f"{search.axis} {found.largest_ok} fits, and nothing larger was asked for"
    return f"{search.axis} {found.largest_ok} fits, {found.smallest_oom} does not"


def next_value(search: Search, answers: Mapping[int, Status], guess: int | None = None) -> int | None:
    """The value to probe next, given the statuses by value so far; None where the search has ended."""
    found = frontier(answers)
    fits, oom = found.largest_ok, found.smallest_oom
    if found.ended_by is not None:
        return None
    if guess is not None and (fits is None or oom is None):
        return _away_from(guess, search, fits, oom)
    if fits is None:
        return search.start if oom is None else None
    if oom is None:
        larger = _on_grid(search, min(2 * fits, search.stop))
        if larger == fits and fits + (search.step or 1) <= search.stop:
            larger = fits + (search.step or 1)  # twice the value is less than a step away
        return larger if larger > fits else None
    gap = oom - fits
    if gap <= (search.step or max(1, fits // RESOLUTION)):
        return None  # a gap below nothing too: memory that ran out below what fitted
    return max(_on_grid(search, fits + gap // 2), fits + (search.step or 1))


def _away_from(guess: int, search: Search, fits: int | None, oom: int | None) -> int | None:
    """The next value while only what fits is known, only what does not, or neither."""
    guess = _on_grid(search, min(max(guess, search.start), search.stop))
    near = search.step or max(1, guess // RESOLUTION)
    if fits is not None:
        larger = _on_grid(search, min(guess + max(near, 2 * (fits - guess)), search.stop))
        return larger if larger > fits else None
    if oom is None:
        return guess
    smaller = guess - max(near, 2 * (guess - oom))
    # Without a step the answer is an eighth of itself exact, however small it is: never more than halved.
    smaller = max(smaller, oom // 2) if search.step is None else _on_grid(search, smaller)
    return max(search.start, smaller) if oom > search.start else None


def _on_grid(search: Search, value: int) -> int:
    """The nearest value below that the step allows."""
    return value if search.step is None else search.start + (value - search.start) // search.step * search.step


@cache
def most_probes(search: Search, guess: int | None = None) -> int:
    """How many values one subject can ask for, whichever of them runs out of memory first, or fits first below a guess."""
    longest = 0
    turns = math.ceil(math.log2(search.stop / search.start)) + 3
    if guess is not None:
        turns = max(turns, math.ceil(math.log2(search.stop)) + 3)
    ends = (FITS[0], Status.OOM)
    for first, other in (ends,) if guess is None else (ends, ends[::-1]):
        for turning in range(1, turns):
            for last in ends:
                answers: dict[int, Status] = {}
                while (value := next_value(search, answers, guess)) is not None:
                    probes = len(answers) + 1
                    answers[value] = first if probes < turning else other if probes == turning else last
                longest = max(longest, len(answers))
    return longest
