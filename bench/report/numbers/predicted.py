"""The memory model's prediction beside a measured peak: by cause, as the row stored it before it ran, else by today's formulas."""

from __future__ import annotations

from bench.plan.predict import predict
from bench.plan.spec import PlanError
from bench.plan.stored import PREDICTED, stored
from bench.report.numbers import units
from bench.report.numbers.memory import LARGEST, by_cause
from bench.report.numbers.summary import TOTAL, CaseSummary

LEAST_OFF = 0.0005
"""What is nearer than this is told as that."""


def predicted_causes(case: CaseSummary) -> dict[str, float]:
    """Bytes by cause at the predicted peak; empty where there is no prediction."""
    found = _stored(case)
    return {cause: float(size) for cause, size in (_computed(case) if found is None else found).items() if 0 < size < LARGEST}


def _stored(case: CaseSummary) -> dict[str, int] | None:
    """What a row keeps, nothing where the model refused; None where no row keeps anything."""
    kept = [result for result in case.counted if PREDICTED in result.conditions]
    told = next((found for result in kept if (found := stored(result.conditions)) is not None), None)
    return dict(told.causes) if told else {} if kept else None


def _computed(case: CaseSummary) -> dict[str, int]:
    if case.case.workload != "train_step" or case.case.device != "cuda":
        return {}
    try:
        return dict(predict(case.case.params, case.case.subject).peak.by_category())
    except (PlanError, TypeError, ValueError):
        return {}  # TypeError, ValueError: an imported row may lack sizes, or hold what is none


def prediction_words(case: CaseSummary) -> str:
    """`fused: 41.2 GiB predicted before it ran, 40.1 GiB measured, +2.7 %`; nothing where one of the two is missing."""
    predicted, measured = sum(predicted_causes(case).values()), case.values.get(TOTAL)
    total = measured.median if measured else sum(by_cause(case).values())
    if not predicted or not total:
        return ""
    when = "predicted by today's formulas" if _stored(case) is None else "predicted before it ran"
    share = predicted / total - 1
    off = f"{share:+.1%}".replace("%", " %") if abs(share) >= LEAST_OFF else f"within {LEAST_OFF * 100:g} %"
    return f"{case.label}: {units.size(predicted)} {when}, {units.size(total)} measured, {off}"
