"""Labelled series of process medians, night by night: of each kind what is in it, and where, is known beforehand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NIGHTS, CHANGE = 80, 50
"""Nights of a series, and the one with which it changes, where it does."""
PROCESSES = 5
SPREAD = 0.005
"""Between processes, as a share: what the judgement is meant for."""
FAST_MHZ, SLOW_MHZ = 1980.0, 1890.0
"""Two clock states of one GPU: a process gets one or the other when it starts, and keeps it."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A series with what is true of it."""

    nights: tuple[tuple[float, ...], ...]
    """Process medians in seconds."""
    change: int | None = None
    """The first night of another level; None where no level changes."""
    spikes: frozenset[int] = field(default_factory=frozenset)
    """Nights on which the machine alone was slow."""
    other_environment_from: int | None = None
    absent: frozenset[int] = field(default_factory=frozenset)
    """Nights that were not measured."""


def _night(rng: random.Random, level: float, spread: float = SPREAD) -> tuple[float, ...]:
    return tuple(1e-2 * level * math.exp(rng.gauss(0.0, spread)) for _ in range(PROCESSES))


def in_two_states(rng: random.Random, slow_share: float, level: float = 1.0) -> tuple[float, ...]:
    """A night whose processes that each found one of two clocks: time is cycles over clock."""
    cycles = (value * FAST_MHZ for value in _night(rng, level))
    return tuple(count / (SLOW_MHZ if rng.random() < slow_share else FAST_MHZ) for count in cycles)


def unchanged(rng: random.Random) -> Labelled:
    """Noise alone."""
    return Labelled(tuple(_night(rng, 1.0) for _ in range(NIGHTS)))


def step(rng: random.Random) -> Labelled:
    """Slower by 3 % from one night on."""
    return Labelled(tuple(_night(rng, 1.03 if night >= CHANGE else 1.0) for night in range(NIGHTS)), CHANGE)


def drift(rng: random.Random) -> Labelled:
    """Slower by 0.3 % a week, for eight weeks."""
    return Labelled(tuple(_night(rng, 1.003 ** (night / 7)) for night in range(56)), 0)


def spike(rng: random.Random) -> Labelled:
    """Four nights of eighty slower by 10 to 60 %, each by its own, and good again the next day."""
    hit = frozenset(rng.sample(range(20, NIGHTS - 1), 4))
    return Labelled(tuple(_night(rng, rng.uniform(1.1, 1.6) if night in hit else 1.0) for night in range(NIGHTS)), spikes=hit)


def bimodal(rng: random.Random) -> Labelled:
    """Two clock states, of which a fifth of the processes find the slower."""
    return Labelled(tuple(in_two_states(rng, 0.2) for _ in range(NIGHTS)))


def bimodal_step(rng: random.Random) -> Labelled:
    """The same, and slower by 5 % in both states from one night on."""
    return Labelled(tuple(in_two_states(rng, 0.2, 1.05 if night >= CHANGE else 1.0) for night in range(NIGHTS)), CHANGE)


def occupancy(rng: random.Random) -> Labelled:
    """Two clock states that stay what they are, while the slow one becomes the rule: a tenth of the processes, then nine tenths."""
    return Labelled(tuple(in_two_states(rng, 0.9 if night >= CHANGE else 0.1) for night in range(NIGHTS)), CHANGE)


def variance(rng: random.Random) -> Labelled:
    """Four times the spread from one night on, and the same level."""
    return Labelled(tuple(_night(rng, 1.0, SPREAD * (4 if night >= CHANGE else 1)) for night in range(NIGHTS)))


def environment_break(rng: random.Random) -> Labelled:
    """Slower by 5 % with another version of torch."""
    nights = tuple(_night(rng, 1.05 if night >= CHANGE else 1.0) for night in range(NIGHTS))
    return Labelled(nights, CHANGE, other_environment_from=CHANGE)


def gap(rng: random.Random) -> Labelled:
    """Ten nights without a run, and as before afterwards."""
    return Labelled(tuple(_night(rng, 1.0) for _ in range(NIGHTS)), absent=frozenset(range(CHANGE - 10, CHANGE)))


def gap_step(rng: random.Random) -> Labelled:
    """Ten nights without a run, and slower by 3 % afterwards."""
    nights = tuple(_night(rng, 1.03 if night >= CHANGE else 1.0) for night in range(NIGHTS))
    return Labelled(nights, CHANGE, absent=frozenset(range(CHANGE - 10, CHANGE)))


KINDS: Mapping[str, Callable[[random.Random], Labelled]] = {
    make.__name__: make
    for make in (
        unchanged, step, drift, spike, bimodal, bimodal_step, occupancy, variance, environment_break, gap, gap_step
    )
}  # fmt: skip
