"""The memory model's prediction beside a measured peak, by cause and phase: as the row stored it, else by today's formulas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from bench.plan.predict import predict
from bench.plan.spec import PlanError
from bench.plan.stored import PREDICTED, TARGETS, WORKLOAD, Stored, stored
from bench.plan.terms import Prediction
from bench.records import canonical_json
from bench.report.numbers import units
from bench.report.numbers.memory import LARGEST, by_cause
from bench.report.numbers.summary import TOTAL, CaseSummary

KEPT = 1024
"""Of the latest predictions."""
LEAST_OFF = 0.0005
"""What is nearer than this is told as that."""
MEASURED_AS: Mapping[str, tuple[str, ...]] = {
    "forward": ("forward", "loss"),
    "backward": ("backward",),
    "optimizer": ("optimizer",),
}
"""Phase of a measured step to the phases of a predicted one that it holds."""

AWAY_METRICS: Mapping[str, str] = {"host_pinned_bytes": "host_pinned", "disk_bytes": "disk"}
"""Metric to the part of a prediction that lies off the GPU; memory of the host that is not page-locked holds the process too."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """Predicted peaks of one rank's step, of the rank that needs most."""

    peak_bytes: float
    phases: Mapping[str, float]
    """By phase of a measured step."""
    before: bool
    """Whether the row stored them before it ran; else they are by today's formulas."""
    away: Mapping[str, float] = field(default_factory=dict)
    """By metric of `AWAY_METRICS`, only what lies off the GPU; empty where the row stored none of it."""


def predicted_causes(case: CaseSummary) -> dict[str, float]:
    """Bytes by cause at the predicted peak; empty where there is no prediction."""
    told, found = _stored(case)
    if not told:
        computed = by_formulas(case) if case.case.device == "cuda" else None
        causes = computed.peak.by_category() if computed else {}
    else:
        causes = dict(found.causes) if found else {}
    return {cause: float(size) for cause, size in causes.items() if 0 < size < LARGEST}


def predicted_phases(case: CaseSummary) -> Foretold | None:
    """None where there is no prediction. Rows of older versions stored none of phases: then all of it is by today's formulas."""
    told, found = _stored(case)
    if told and found is None:
        return None
    if found is not None and found.phases:
        away = {metric: float(found.away[part]) for metric, part in AWAY_METRICS.items() if part in found.away}
        return Foretold(found.peak_bytes, _as_measured(found.phases), before=True, away=away)
    computed = by_formulas(case)
    return Foretold(computed.peak_bytes, _as_measured(computed.by_phase()), before=False) if computed else None


def _as_measured(phases: Mapping[str, int]) -> dict[str, float]:
    found = {name: [phases[own] for own in parts if own in phases] for name, parts in MEASURED_AS.items()}
    return {name: float(max(sizes)) for name, sizes in found.items() if sizes}


def _stored(case: CaseSummary) -> tuple[bool, Stored | None]:
    """Whether a row keeps a prediction, and what it is: None of one that the model refused."""
    kept = [result for result in case.counted if PREDICTED in result.conditions]
    return bool(kept), next((found for result in kept if (found := stored(result.conditions)) is not None), None)


def by_formulas(case: CaseSummary) -> Prediction | None:
    """What today's formulas predict of a case; None of what they do not speak of. Several views of a page ask this of one case."""
    own = case.case
    if own.workload != WORKLOAD or own.device not in TARGETS:
        return None
    return _predicted(canonical_json([{**own.params, "world_size": own.world_size}, dict(own.subject)]), own.device)


@lru_cache(maxsize=KEPT)
def _predicted(step: str, device: str) -> Prediction | None:
    params, subject = json.loads(step)
    try:
        return predict(params, subject, TARGETS[device])
    except (PlanError, TypeError, ValueError):
        return None  # TypeError, ValueError: an imported row may lack sizes, or hold what is none


def off_words(predicted: float, measured: float) -> str:
    """How far a prediction is off: `+2.7 %`, `within 0.05 %`."""
    share = predicted / measured - 1
    return f"{share:+.1%}".replace("%", " %") if abs(share) >= LEAST_OFF else f"within {LEAST_OFF * 100:g} %"


def prediction_words(case: CaseSummary) -> str:
    """`fused: 41.2 GiB predicted before it ran, 40.1 GiB measured, +2.7 %`; nothing where one of the two is missing."""
    predicted, measured = sum(predicted_causes(case).values()), case.values.get(TOTAL)
    total = measured.median if measured else sum(by_cause(case).values())
    if not predicted or not total:
        return ""
    when = "predicted before it ran" if _stored(case)[0] else "predicted by today's formulas"
    return f"{case.label}: {units.size(predicted)} {when}, {units.size(total)} measured, {off_words(predicted, total)}"
