"""From how many layers on one way to train a model holds less than another, with all else of the model as it is."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from bench.plan.moments import Target
from bench.plan.predict import peak_bytes
from bench.plan.spec import ModelSpec, TrainSpec

LEAST_SAVING = 0.01
"""Of the other's peak: what differs by less is as much."""
LOOKED_AT = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of layers; between the last that does not pay and the next one the search goes by halves."""


@lru_cache(maxsize=256)
def layers_from(model: ModelSpec, other: TrainSpec, own: TrainSpec, target: Target) -> int | None:
    """The fewest layers from which on the peak of `own` is below that of `other` at all numbers that are looked at.

    None where it is not at the last of them. Raises PlanError for what has no formulas.
    """

    def pays(layers: int) -> bool:
        sized = replace(model, layers=layers)
        return peak_bytes(sized, own, target) < (1 - LEAST_SAVING) * peak_bytes(sized, other, target)

    paying = list(takewhile(pays, reversed(LOOKED_AT)))
    if not paying:
        return None
    fewest, too_few = paying[-1], max((layers for layers in LOOKED_AT if layers < paying[-1]), default=0)
    while fewest - too_few > 1:
        middle = (fewest + too_few) // 2
        fewest, too_few = (middle, too_few) if pays(middle) else (fewest, middle)
    return fewest
