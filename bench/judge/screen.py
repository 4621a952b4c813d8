"""Screens the newest point of a series against its last twenty: a suspect to be measured again, or clear, and never a verdict.

The limit is the smaller of two spreads on purpose, the median absolute deviation's and that of a 99 % prediction by Student's t: a
suspect only costs another look, while a standard deviation that an outlier has blown up would miss what it should see. Below it lies a
floor of 2 %. A level that the series has been at and come back from is clear as well (`bench.judge.modes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.judge.modes import stays_before
from bench.judge.student import critical
from bench.stats import MAD_TO_SD, median, stdev

WINDOW = 20
FEWEST = 10
FLOOR = 0.02
MADS = 3.5
CONFIDENCE = 0.99


class Sight(StrEnum):
    """What a screen sees."""

    SUSPECT = "suspect"
    CLEAR = "clear"
    LEARNING = "learning"
    """Fewer than ten points before it."""


@dataclass(frozen=True, slots=True)
class Screening:
    """The newest point beside those before it."""

    sight: Sight
    before: int
    """Points that it was held against."""
    ratio: float | None = None
    """The newest over their median; None while the series is learning."""
    limit: float | None = None
    """The ratio beyond which it is suspect."""
    stays: int = 0
    """Where it is clear only because the series has two modes: how often it was at this level before and came back."""

    @property
    def words(self) -> str:
        """In a sentence."""
        if self.ratio is None or self.limit is None:
            return f"the series is still learning: point {self.before + 1} of {FEWEST + 1}"
        told = f"{self.ratio:.3f}× the median of the {self.before} before it, limit {self.limit:.3f}×"
        told += f"; it was at this level {self.stays} times before, and came back" if self.stays else ""
        return f"the latest point is {self.sight}: {told}"


def screen(values: Sequence[float], *, floor: float = FLOOR) -> Screening:
    """The screening of the last of `values`, all above zero; larger is worse. Raises ValueError without a value."""
    if not values:
        raise ValueError("nothing to screen")
    before = [math.log(value) for value in values[:-1][-WINDOW:]]
    if len(before) < FEWEST:
        return Screening(Sight.LEARNING, len(before))
    centre = median(before)
    deviation = MADS * MAD_TO_SD * median([abs(value - centre) for value in before])
    prediction = critical(CONFIDENCE, len(before) - 1) * stdev(before) * math.sqrt(1 + 1 / len(before))
    limit = max(math.log1p(floor), min(deviation, prediction))
    beyond = math.log(values[-1]) - centre
    found = Screening(Sight.SUSPECT if beyond > limit else Sight.CLEAR, len(before), math.exp(beyond), math.exp(limit))
    if found.sight is Sight.CLEAR:
        return found
    stays = stays_before(values[-WINDOW - 1 :], centre=math.exp(centre), limit=math.exp(limit), within=floor)
    return replace(found, sight=Sight.CLEAR, stays=stays) if stays else found
