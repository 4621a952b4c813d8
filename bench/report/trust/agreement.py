"""Whether arms of a training step that compute in the same dtypes agree at the measured size: by the gradients of their first update.

All arms of a point begin with the same weights and see the same batch in trials of one index, so the norm of those gradients is one number
that each of them computes in its own way. Over some hundred published steps those of one dtype lay within 0.6 % of each other.

Each trial is held against the other arms and never against its own. It is apart where it is so from more than half of them: of two arms
either may be wrong and both are told, of three the one that differs from two is told alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from bench.records import Result, Status
from bench.report.numbers.findings import numerics_of
from bench.report.numbers.summary import CaseSummary
from bench.stats import median

GRADIENTS_OF = "gradients_of_step"
"""The condition that says at which step gradients were looked at; older rows looked at later ones, which no two arms share."""
SEED = "seed"
"""How a page repeats the seed of such a trial among its conditions: parts of a run that are told as one have several."""
APART = 0.02
"""Of the other arm's norm, from which on one of the two computes something else."""


@dataclass(frozen=True, slots=True)
class Apart:
    """How many of the trials that have others to be held against are apart, and the one that is furthest.

    `share`: how far that one is at least from more than half of the other arms, of their norms.
    """

    trials: int
    of: int
    label: str
    share: float


def seed_of(result: Result) -> int | None:
    """Of the row itself, or as a page repeats it."""
    told = result.seed if result.seed is not None else result.conditions.get(SEED)
    return told if isinstance(told, int) else None


def gradients_apart(cases: Sequence[CaseSummary]) -> Apart | None:
    """None where no two arms can be held against each other, or all agree."""
    points: dict[Hashable, dict[int, list[float]]] = {}
    for arm, case in enumerate(cases):
        for result in case.counted:
            norm = case.trial_values.get(result.id, {}).get("gradient_norm")
            if result.status is Status.OK and norm and (place := _place(result)) is not None:
                points.setdefault(place, {}).setdefault(arm, []).append(norm)
    held = [
        (_distance(norm, [median(others) for other, others in arms.items() if other != arm]), cases[arm].label)
        for arms in points.values()
        if len(arms) > 1
        for arm, norms in arms.items()
        for norm in norms
    ]
    apart = [one for one in held if one[0] > APART]
    return Apart(len(apart), len(held), max(apart)[1], max(apart)[0]) if apart else None


def _distance(norm: float, others: Sequence[float]) -> float:
    """As a share of each other's norm, the lower median: where it is above a limit, more than half of them are that far away."""
    return sorted(abs(norm / other - 1.0) for other in others)[(len(others) - 1) // 2]


def _place(result: Result) -> Hashable | None:
    """What arms must have in common; None where the row does not tell it, or dropout makes gradients a draw.

    What ranks share says no dtype of its own: it is gathered in that of the products.
    """
    numerics, seed = numerics_of(result), seed_of(result)
    compute = numerics.get("numerics_compute")
    if (
        seed is None
        or compute is None
        or not isinstance(result.conditions.get(GRADIENTS_OF), int)
        or result.case.params.get("dropout")
    ):
        return None
    of_dtypes = numerics.get("numerics_weights", compute), compute, numerics.get("numerics_loss_scaling")
    return result.case.point_key, seed, result.trial.index, *of_dtypes, numerics.get("learned_parameters")
