"""Tells a known second level of a series from a new one: some series have two modes, such as two clocks, and change between them unasked.

A night beyond the limit is in a known mode where earlier nights were at about the same level, and the series came back from it, twice or
more: once may have been a change and its repair. Being there then says nothing by itself; staying there does. By the share of earlier
nights that were there, so long a stay has a probability, and from one in a hundred on the night is a suspect like any other: what has
changed is how often the mode is met, though neither level has moved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

FEWEST_STAYS = 2
CHANCE = 0.01
"""Of a stay as long as this one, below which it is no chance."""


def stays_before(values: Sequence[float], *, centre: float, limit: float, within: float) -> int:
    """How often a series has been at about its last value's level before, and come back.

    0 where this stay is longer than chance makes it, and where there were fewer than two. All `values` are above zero.

    Args:
        values: in the order of time; the last one lies beyond `limit`, to either side.
        centre, limit: what is usual, and the ratio to it beyond which a night is not.
        within: how far apart, as a share, two nights may be and still be at one level.
    """
    last = math.log(values[-1] / centre)
    side = math.copysign(1.0, last)

    def is_there(value: float) -> bool:
        away = math.log(value / centre)
        return side * away > math.log(limit) and abs(away - last) <= math.log1p(within)

    stays = [(there, len(list(nights))) for there, nights in itertools.groupby(values, key=is_there)]
    *earlier, (_, length) = stays
    ended = [nights for there, nights in earlier if there]
    if len(ended) < FEWEST_STAYS:
        return 0
    # As if one night more had been there and one not: a share of few nights is no certainty.
    share = (sum(ended) + 1) / (sum(nights for _, nights in earlier) + 2)
    return len(ended) if share**length > CHANCE else 0
