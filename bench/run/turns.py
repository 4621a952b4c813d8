"""A plan on its way: which trials still lack their row, how many there will be, and how long that may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bench.records import Result, Status, Trial, TrialKey
from bench.run.search import Group, frontier, spell_frontier

if TYPE_CHECKING:
    from bench.run.plan import Plan


class Turns:
    """The blocks of a plan in their turn. Where something is searched, rows decide what comes next, so each must be told by `stored`."""

    def __init__(self, plan: Plan, done: Mapping[TrialKey, Status]) -> None:
        """`done`: trials of the plan that had a row before."""
        self._plan = plan
        self._done = done
        self._searching = plan.searching
        self._statuses: dict[TrialKey, Status] = dict(done)
        """By which a search finds its way; only kept up where there is one."""
        known = list(plan.in_turn(self._status))
        self._blocks = {block[0].block: [trial for trial in block if trial.key not in done] for block in known}
        """By number, the trials to measure of each block that is known so far."""
        self.planned = sum(map(len, known))
        """Trials that are known to be needed, those with a row included; grows while something is searched."""
        self._told: set[str] = set()
        """Keys of first cases whose search has ended, as was told."""
        groups = self._searching.groups if self._searching else ()
        self._group_left_s = {group.number: plan.left_s(group, self._status) for group in groups}
        # Kept as a sum: to count what is left after each of ten thousand rows would hash a hundred million cases.
        self.left_s = sum(plan.seconds(block) for number, block in self._blocks.items() if not plan.is_searched(number))
        self.left_s += sum(self._group_left_s.values())

    def _status(self, trial: Trial) -> Status | None:
        return self._statuses.get(trial.key)

    def known(self) -> Iterator[Trial]:
        """The trials without a row that are known by now."""
        for block in self._blocks.values():
            yield from block

    def blocks(self) -> Iterator[list[Trial]]:
        """The trials to measure of each block that has any; rows must be told of before the next block is asked for."""
        for whole in self._plan.in_turn(self._status):
            if block := self._blocks[whole[0].block]:
                yield block

    def stored(self, result: Result) -> None:
        """Takes note of a row; counts the block that a search has decided with it, if it was the last of its own block."""
        self.left_s -= self._plan.seconds([result.trial])
        group = self._searching.group_of(result.trial) if self._searching else None
        if self._searching is None or group is None:
            return
        self._statuses[result.trial.key] = result.status
        for block in self._searching.blocks(self._status, group):
            number = block[0].block
            if number not in self._blocks:
                self._blocks[number] = [trial for trial in block if trial.key not in self._done]
                self.planned += len(block)

    def ended(self, block: list[Trial]) -> Iterator[tuple[Mapping[str, str], str]]:
        """Subjects whose search has ended with this block, with what was found, in words. Guesses anew what is left."""
        group = self._searching.group_of(block[0]) if self._searching else None
        if group is not None:
            yield from self._ended(group)

    def _ended(self, group: Group) -> Iterator[tuple[Mapping[str, str], str]]:
        if self._searching is None:
            return
        self._group_left_s[group.number] = self._plan.left_s(group, self._status)
        self.left_s = sum(self._group_left_s.values())
        for case, answers in self._searching.answers(self._status, group):
            if answers and case.key not in self._told and self._searching.next_value(case, answers) is None:
                self._told.add(case.key)
                yield case.subject, spell_frontier(self._searching.search, frontier(answers))
