"""Puts trials in order: blocks shuffled by a seed, subjects interleaved within a block, inputs seeded alike for all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.records import Case, Trial, fingerprint

Share = tuple[int, int]
"""(I, N): the I-th of N parts, from 1."""


def order(
    cases: Sequence[Case], trials: int, seed: int, shard: Share | None = None, part: Share | None = None
) -> tuple[Trial, ...]:
    """Blocks (points) in an order drawn from `seed`, the trials of each interleaved.

    Only those of `shard`, and of these only those of `part`; blocks keep the numbers that they have in the whole.
    """
    points: dict[str, list[Case]] = {}
    for case in cases:
        points.setdefault(case.point_key, []).append(case)
    # By the points and not by the seed: a series stays in its part, and so on its GPU, from one night to the next.
    ours = sorted(points)
    for number, parts in filter(None, (shard, part)):
        ours = ours[number - 1 :: parts]
    kept = set(ours)
    blocks = list(points.items())
    random.Random(seed).shuffle(blocks)
    ordered: list[Trial] = []
    for block, (point, subjects) in enumerate(blocks):
        if point in kept:
            ordered += interleaved(subjects, trials, block)
    return tuple(ordered)


def interleaved(subjects: Sequence[Case], trials: int, block: int, *, attempt: int = 0) -> tuple[Trial, ...]:
    """The trials of one block: A B C, C B A, A B C ... so that drift hits all subjects alike."""
    turns = (subjects, subjects[::-1])
    sequence = [(case, index) for index in range(trials) for case in turns[index % 2]]
    return tuple(Trial(case, index, block, position, attempt=attempt) for position, (case, index) in enumerate(sequence))


def trial_seed(run_seed: int, trial: Trial) -> int:
    """The seed of a trial's inputs: all subjects of a point see the same numbers, and every index other ones."""
    return int(fingerprint([run_seed, trial.case.point_key, trial.index])[:8], 16) & 0x7FFFFFFF
