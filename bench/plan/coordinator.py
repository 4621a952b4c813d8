"""Replays how DeepSpeed's coordinator of stage 3 fetches, keeps and lets go of weights in a step whose order is known.

Read off `runtime/zero/partitioned_param_coordinator.py` and `all_gather_coalesced` of `partition_parameters.py` (0.19). Each module fetches
what it uses and then, from the list of a whole step, what comes next until `stage3_prefetch_bucket_size` is passed: whole tensors, and
those that are there already cost nothing, so a fetch may reach far ahead. A weight stays after its use if it comes again within
`stage3_max_reuse_distance` weights, or if a fetch has counted on it. Tensors that are fetched together arrive in one buffer, are copied out
of it when the first of them is used, and the buffer stays until the last of them is.

Layers are alike, so most of a deep model says nothing new. What happens next follows from the state (what is there or on its way, what the
list was read up to, and what was counted on), from the list itself, and from whether each weight comes again soon enough to stay. Where the
state at the beginning of a layer is that of some layers before, but for the layer's number, and the list goes on and weights stay as they
did then, the same must happen again: those rounds are taken as done.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from bench.plan.uses import Pattern, Stretch, Use

REUSED_WITHIN = 1_000_000_000
"""Elements, `stage3_max_reuse_distance`."""
LIVE = 1_000_000_000
"""Elements up to which weights are fetched ahead, `stage3_max_live_parameters`."""


@dataclass(slots=True, eq=False)
class _Arrival:
    """Tensors that were fetched together."""

    tensors: frozenset[int]
    buffer: int
    """Elements of the buffer that they share; 0 for one by itself, which is gathered where it stays."""
    left: set[int]
    """Those that were not waited for yet."""
    waited_for: bool = False

    def moved(self, by: int) -> _Arrival:
        """The same of tensors that many numbers on."""
        return _Arrival(_moved(self.tensors, by), self.buffer, {tensor + by for tensor in self.left}, self.waited_for)


def _moved(tensors: frozenset[int], by: int) -> frozenset[int]:
    return frozenset(tensor + by for tensor in tensors)


class _Listed(NamedTuple):
    """What a stretch brings to the list of a step; steps and tensors are counted from its first."""

    elements: tuple[int, ...]
    """By step."""
    tensors: tuple[int, ...]
    steps: tuple[int, ...]
    """Of each tensor."""
    done: tuple[tuple[int, int], ...]
    """Each tensor that a module is done with, and how many steps have begun by then."""


def _listed(stretch: Stretch, sizes: Sequence[int]) -> _Listed:
    elements: list[int] = []
    tensors: list[int] = []
    steps: list[int] = []
    done: list[tuple[int, int]] = []
    for use in stretch.pattern.uses:
        if use.begins:
            tensors += use.tensors
            steps += [len(elements)] * len(use.tensors)
            elements.append(sum(sizes[stretch.first + tensor] for tensor in use.tensors))
        else:
            done += [(tensor, len(elements)) for tensor in use.tensors]
    return _Listed(tuple(elements), tuple(tensors), tuple(steps), tuple(done))


@dataclass(slots=True)
class Highest:
    """The most elements that are there in a stretch: gathered tensors and the buffers that they came in."""

    elements: int = 0
    while_used: dict[tuple[int, ...], int] = field(default_factory=dict)
    """By the tensors of a module, counted as in the pattern: when it is done with them."""


class Coordinator:
    """One step, as every one after the first two is."""

    def __init__(self, sizes: Sequence[int], stretches: Sequence[Stretch], *, ranks: int, prefetch: int, threshold: int) -> None:
        """`sizes`: elements by tensor. Up to `threshold` elements nothing is divided, so it is always there."""
        self.sizes, self.stretches, self.ranks, self.prefetch = sizes, stretches, ranks, prefetch
        self.divided = [size > threshold for size in sizes]
        self.trace: list[int] = []
        """Tensors in the order of the step."""
        self.steps: list[int] = []
        """Of each of them."""
        self.uses_of: list[list[int]] = [[] for _ in sizes]
        """Steps by tensor."""
        self.begins: list[tuple[int, int]] = []
        """By stretch: its first step, and its first place in the trace."""
        self.listed: dict[Pattern, _Listed] = {}
        for stretch in stretches:
            if stretch.pattern not in self.listed:
                self.listed[stretch.pattern] = _listed(stretch, sizes)
        of_steps: list[int] = []
        for stretch in stretches:
            step, first, listed = len(of_steps), stretch.first, self.listed[stretch.pattern]
            self.begins.append((step, len(self.trace)))
            self.trace += [first + tensor for tensor in listed.tensors]
            self.steps += [step + after for after in listed.steps]
            of_steps += listed.elements
        for tensor, step in zip(self.trace, self.steps, strict=True):
            self.uses_of[tensor].append(step)
        self.passed = [0, *accumulate(of_steps)]
        """Elements that the steps before each have used."""
        self.stays: list[tuple[bool, ...] | None] = [None] * len(stretches)
        self.highest = [Highest() for _ in stretches]
        self.there: set[int] = set()
        """Of those that are divided."""
        self.on_the_way: dict[int, _Arrival] = {}
        self.counted_on = [-1] * len(sizes)
        """By tensor: the last step for which a fetch has looked at it."""
        self.step = self.front = self.available = self.now = 0
        """`front`: up to where the trace was read."""

    def run(self, *, whole: bool = False) -> list[Highest]:
        """By stretch. `whole`: with every layer replayed, however alike they are."""
        seen: dict[tuple[object, ...], int] = {}
        at = 0
        while at < len(self.stretches):
            if not whole:
                state = self._state(at)
                if state in seen:
                    at = self._as_before(at, at - seen[state])
                seen[state] = at
            self._replay(at)
            at += 1
        return self.highest

    def _replay(self, at: int) -> None:
        stays = iter(self._stays(at))
        for use in self.stretches[at].pattern.uses:
            tensors = tuple(self.stretches[at].first + tensor for tensor in use.tensors)
            if use.begins:
                self._begin(at, tensors)
            else:
                self._end(at, use, [(tensor, next(stays)) for tensor in tensors])

    def _stays(self, at: int) -> tuple[bool, ...]:
        """Of each tensor that a module of the stretch is done with: whether it is used again so soon that it stays."""
        known = self.stays[at]
        if known is None:
            first, (step, _) = self.stretches[at].first, self.begins[at]
            done = self.listed[self.stretches[at].pattern].done
            known = self.stays[at] = tuple(self._soon(first + tensor, step + steps) for tensor, steps in done)
        return known

    def _soon(self, tensor: int, step: int) -> bool:
        uses = self.uses_of[tensor]
        after = bisect_left(uses, step)
        return after < len(uses) and self.passed[uses[after]] - self.passed[step] < REUSED_WITHIN

    def _state(self, at: int) -> tuple[object, ...]:
        """All that the rest of the step follows from, with tensors and steps counted from those of the stretch."""
        first, (step, begin) = self.stretches[at].first, self.begins[at]
        arrivals = {
            (None if one.waited_for else _moved(one.tensors, -first), one.buffer, _moved(frozenset(one.left), -first))
            for one in {id(one): one for one in self.on_the_way.values()}.values()
        }
        counted_on = tuple(self.counted_on[tensor] - step for tensor in self.trace[begin : self.front])
        there = _moved(frozenset(self.there), -first)
        return self.now, self.available, self.front - begin, there, frozenset(arrivals), counted_on

    def _as_before(self, at: int, period: int) -> int:
        """Takes as many rounds of `period` stretches as are sure to be as the last one was; where the step goes on."""
        by = self.stretches[at].first - self.stretches[at - period].first
        end = at
        while end < len(self.stretches) and self._alike(end, end - period, by):
            end += 1
        trace = self.begins[at][1] - self.begins[at - period][1]
        # What is fetched ahead must have been read from what is alike too.
        rounds = min((end - at) // period, (self.begins[end][1] - self.front) // trace) if trace and end > at else 0
        if rounds < 1:
            return at
        after = at + rounds * period
        for other in range(at, after):
            self.highest[other] = self.highest[other - period]
        self._go_on(at, after, rounds * by)
        return after

    def _alike(self, at: int, other: int, by: int) -> bool:
        one, before = self.stretches[at], self.stretches[other]
        return (
            by != 0 and one.pattern is before.pattern and one.first - before.first == by and self._stays(at) == self._stays(other)
        )

    def _go_on(self, at: int, after: int, by: int) -> None:
        """With the state at one stretch, moved to another."""
        (step, begin), (later, further) = self.begins[at], self.begins[after]
        counted_on = {tensor + by: self.counted_on[tensor] + later - step for tensor in self.trace[begin : self.front]}
        for tensor, counted in counted_on.items():
            self.counted_on[tensor] = counted
        self.there = {tensor + by for tensor in self.there}
        arrivals = {id(one): one.moved(by) for one in self.on_the_way.values()}
        self.on_the_way = {tensor + by: arrivals[id(one)] for tensor, one in self.on_the_way.items()}
        self.step, self.front = later, self.front + further - begin

    def _note(self, at: int) -> None:
        self.highest[at].elements = max(self.highest[at].elements, self.now)

    def _absent(self, tensor: int) -> bool:
        return self.divided[tensor] and tensor not in self.there and tensor not in self.on_the_way

    def _begin(self, at: int, tensors: tuple[int, ...]) -> None:
        absent = [tensor for tensor in tensors if self._absent(tensor)]
        if absent:
            self._fetch(absent)
            self._note(at)
        for tensor in tensors:
            self._wait(tensor, at)
        behind = sum(self.counted_on[tensor] < self.step for tensor in tensors)
        for _ in range(behind):
            self.counted_on[self.trace[self.front]] = self.steps[self.front]
            self.front += 1
        self._fetch_ahead()
        self.step += 1
        self._note(at)

    def _fetch(self, tensors: list[int]) -> None:
        self.available += sum(self.sizes[tensor] for tensor in tensors)
        padded = sum(-(-self.sizes[tensor] // self.ranks) * self.ranks for tensor in tensors)
        together = len(tensors) > 1 and self.ranks > 1
        arrival = _Arrival(frozenset(tensors), padded if together else 0, set(tensors))
        self.now += padded
        self.on_the_way |= dict.fromkeys(tensors, arrival)

    def _wait(self, tensor: int, at: int) -> None:
        arrival = self.on_the_way.get(tensor)
        if arrival is None or tensor not in arrival.left:
            return
        if not arrival.waited_for:
            arrival.waited_for = True
            self.there |= arrival.tensors
            if arrival.buffer:
                self.now += sum(self.sizes[other] for other in arrival.tensors)
                self._note(at)
        arrival.left.discard(tensor)
        del self.on_the_way[tensor]
        if not arrival.left:
            self.now -= arrival.buffer

    def _fetch_ahead(self) -> None:
        limit, ahead, size = min(LIVE - self.available, self.prefetch), list[int](), 0
        while self.front < len(self.trace) and size < limit:
            tensor = self.trace[self.front]
            self.counted_on[tensor] = max(self.counted_on[tensor], self.steps[self.front])
            self.front += 1
            if self._absent(tensor) and tensor not in ahead:
                ahead.append(tensor)
                size += self.sizes[tensor]
        if ahead:
            self._fetch(ahead)

    def _end(self, at: int, use: Use, tensors: Sequence[tuple[int, bool]]) -> None:
        """`tensors`, with whether each stays."""
        self.highest[at].while_used[use.tensors] = self.now
        for tensor, stays in tensors:
            if tensor in self.there and not stays and self.counted_on[tensor] <= self.step:
                self.there.discard(tensor)
                self.available -= self.sizes[tensor]
                self.now -= self.sizes[tensor]
