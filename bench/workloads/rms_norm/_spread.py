"""Evenly spread positions, the last among them: where a part of a large problem is looked at.

A kernel may go wrong in any of its blocks, and where numbers become too large for an index it does so at the end.
"""

from __future__ import annotations

import math


def spread(size: int, wanted: int) -> tuple[slice, int]:
    """Of `size` positions as many as fit with equal steps between, `wanted` at most; and how many these are."""
    step = math.ceil(size / max(1, wanted))
    positions = slice((size - 1) % step, None, step)
    return positions, len(range(size)[positions])
