"""Steps that `bench history` would have told on an earlier night and tells no more: what somebody may have read, and can forget.

Steps are derived anew each time, so nothing is stored that could be taken back. But what was said is known: the same is asked of the
series as it was some nights ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.judge.changepoints import AGREE_WITHIN, ChangePoint, change_points

LOOKED_BACK = 30
"""Nights: who read something earlier has read it again since."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """A step for the worse that was told from one night to another. All three are places in the series, the last one included."""

    index: int
    """Of the first point after the step."""
    ratio: float
    """As it was told last."""
    from_index: int
    until_index: int


def retracted(values: Sequence[float], now: Sequence[ChangePoint], *, fewest: int, floor: float) -> tuple[Retracted, ...]:
    """The firm steps for the worse that some of the last thirty nights told and that are not among those of `now`, in their order.

    Args:
        values: the series, all above zero.
        fewest: points from which on steps are told.
        floor: the smallest step, as a share.
    """
    found: list[Retracted] = []
    for last in range(max(fewest, len(values) - LOOKED_BACK) - 1, len(values) - 1):
        for change in change_points(values[: last + 1], floor=floor):
            if change.ratio <= 1 or not change.firm or any(abs(change.index - other.index) <= AGREE_WITHIN for other in now):
                continue
            place = next((k for k, one in enumerate(found) if abs(one.index - change.index) <= AGREE_WITHIN), None)
            if place is None:
                found.append(Retracted(change.index, change.ratio, last, last))
            else:
                found[place] = replace(found[place], ratio=change.ratio, until_index=last)
    return tuple(sorted(found, key=lambda one: one.index))
