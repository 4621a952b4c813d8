"""How much energy a GPU used between two moments, by readings of its counter, and how exactly those can tell.

The counter counts millijoules since the driver was loaded, but a driver brings it up to date only every 20 to 100 ms, and we read it
some fifty times a second. So what counts are the readings at which it had moved: between two of them it is taken to grow evenly. At each
of the two moments the line lags behind by less than the longest stretch between such readings; where the GPU draws the same power before
either moment, both lags cost at most that stretch times the power together, so the error is at most stretch / duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

STRETCHES = 10
"""A duration of fewer stretches is not told: its energy could be wrong by more than a tenth."""


class EnergyUnknownError(Exception):
    """The readings do not tell it; the text says why."""


@dataclass(frozen=True, slots=True)
class EnergyUsed:
    """Joules between two moments. `resolution_s` is the longest stretch in which the counter was not seen to move."""

    joules: float
    resolution_s: float
    duration_s: float

    @property
    def error_share(self) -> float:
        """By which share the joules may be wrong."""
        return self.resolution_s / self.duration_s


def energy_between(readings: Sequence[tuple[float, int]], start_s: float, end_s: float) -> EnergyUsed:
    """Of readings (monotonic seconds, millijoules) in their order. Raises EnergyUnknownError where they do not tell it."""
    if not readings:
        raise EnergyUnknownError("NVML does not tell how much energy this GPU used")
    if any(later[1] < earlier[1] for earlier, later in pairwise(readings)):
        raise EnergyUnknownError("the GPU's energy counter began anew in between")
    moved = [reading for before, reading in zip([(0.0, -1), *readings], readings, strict=False) if reading[1] != before[1]]
    around = _around(moved, start_s, end_s)
    resolution_s = max(later[0] - earlier[0] for earlier, later in pairwise(around))
    duration_s = end_s - start_s
    if duration_s < STRETCHES * resolution_s:
        raise EnergyUnknownError(
            f"{duration_s:.2g} s are too short: the GPU's energy counter was seen to move every {resolution_s:.2g} s, "
            f"and {STRETCHES * resolution_s:.2g} s are needed (a longer min_sampling_s under protocol gives them)"
        )
    return EnergyUsed((_at(around, end_s) - _at(around, start_s)) / 1e3, resolution_s, duration_s)


def _around(moved: Sequence[tuple[float, int]], start_s: float, end_s: float) -> Sequence[tuple[float, int]]:
    """The movements from the last before `start_s` to the first after `end_s`."""
    first = max((index for index, (moment, _) in enumerate(moved) if moment <= start_s), default=None)
    last = next((index for index, (moment, _) in enumerate(moved) if moment >= end_s), None)
    if first is None or last is None or last == first:
        raise EnergyUnknownError("the GPU's energy counter was not seen to move both before and after the timed calls")
    return moved[first : last + 1]


def _at(around: Sequence[tuple[float, int]], moment_s: float) -> float:
    """Millijoules at a moment within the movements, evenly between two of them."""
    for (earlier_s, earlier), (later_s, later) in pairwise(around):
        if earlier_s <= moment_s <= later_s:
            return earlier + (later - earlier) * (moment_s - earlier_s) / (later_s - earlier_s)
    raise ValueError(f"{moment_s} lies outside the readings")
