"""How far the rows of two runs scatter beyond what their processes explain: the spread between runs, learnt from the runs themselves.

Two runs that were measured apart differ by what the machine did in between, and each row by another amount. The processes of one run cannot
show it, but most rows of two runs of nearly the same code can: their ratios scatter by sampling and by that spread alone. So the spread is
what the median absolute deviation of the log ratios has beyond the rows' own standard errors (a random effect, by moments, made robust, so
that the few rows that did change do not count). What all rows share is no scatter: it is left to the rule of the mass shift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.stats import MAD_TO_SD, median

FEWEST_ROWS = 20


def scatter(rows: Sequence[tuple[float, float]]) -> float | None:
    """Standard deviation between rows, in logarithms, of (log ratio, its standard error); None below twenty rows."""
    if len(rows) < FEWEST_ROWS:
        return None
    centre = median([estimate for estimate, _ in rows])
    seen = MAD_TO_SD * median([abs(estimate - centre) for estimate, _ in rows])
    explained = median([error for _, error in rows])
    return math.sqrt(max(0.0, seen**2 - explained**2))
