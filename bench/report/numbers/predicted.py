"""The memory model's prediction beside a measured peak: by cause, of training steps on CUDA that it has formulas for."""

from __future__ import annotations

from bench.plan.predict import predict
from bench.plan.spec import PlanError
from bench.report.numbers import units
from bench.report.numbers.memory import LARGEST, by_cause
from bench.report.numbers.summary import TOTAL, CaseSummary

MOST_REASON = 120


def predicted_causes(case: CaseSummary) -> dict[str, float]:
    """Bytes by cause at the predicted peak; empty where there is no prediction."""
    if case.case.workload != "train_step" or case.case.device != "cuda":
        return {}
    try:
        found = predict(case.case.params, case.case.subject)
    except (PlanError, TypeError, ValueError):
        return {}  # TypeError, ValueError: an imported row may lack sizes, or hold what is none
    return {cause: float(size) for cause, size in found.peak.by_category().items() if 0 < size < LARGEST}


def prediction_words(case: CaseSummary) -> str:
    """`fused: 41.2 GiB predicted, 40.1 GiB measured, +2.7 %`; nothing where one of the two is missing."""
    predicted, measured = sum(predicted_causes(case).values()), case.values.get(TOTAL)
    total = measured.median if measured else sum(by_cause(case).values())
    if not predicted or not total:
        return ""
    return f"{case.label}: {units.size(predicted)} predicted, {units.size(total)} measured, {predicted / total - 1:+.1%}".replace(
        "%", " %"
    )
