"""Predictions beside measured peaks: an error table from rows of the workload `train_step`.

A prediction passes where the whole is within 5 % and every cause within 10 % or 100 MiB. Nothing is fitted: what is off is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.plan.predict import predict
from bench.plan.spec import PlanError
from bench.plan.terms import CAUSES, Prediction

WHOLE_ERROR = 0.05
CAUSE_ERROR = 0.10
CAUSE_BYTES = 100 * 2**20
RESIDENT_CAUSES = ("other_residents", "unattributed", "allocator_slack")
"""Not judged alone: a measurement puts into them what it cannot name."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The peak of one case as it was measured on CUDA: medians over its trials."""

    params: Mapping[str, Any]
    subject: Mapping[str, str]
    peak_bytes: float
    causes: Mapping[str, float]
    """Bytes by cause; empty where the peak was not explained."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table."""

    measured: Measured
    prediction: Prediction | None
    refused: str | None
    """Why there is no prediction."""

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        return None if self.prediction is None else self.prediction.peak_bytes / self.measured.peak_bytes - 1

    def causes_off(self) -> dict[str, tuple[float, float]]:
        """Cause to (predicted, measured) bytes, of those that are off by more than is granted."""
        if self.prediction is None or not self.measured.causes:
            return {}
        predicted = self.prediction.peak.by_category()
        off = {}
        for cause in CAUSES:
            ours, theirs = float(predicted.get(cause, 0)), self.measured.causes.get(cause, 0.0)
            if cause not in RESIDENT_CAUSES and abs(ours - theirs) > max(CAUSE_BYTES, CAUSE_ERROR * theirs):
                off[cause] = (ours, theirs)
        return off

    @property
    def passed(self) -> bool | None:
        """None where nothing was predicted."""
        error = self.error
        return None if error is None else abs(error) <= WHOLE_ERROR and not self.causes_off()


def compare(measured: Iterable[Measured]) -> tuple[Comparison, ...]:
    """Each beside its prediction, the largest error first, what has no formulas last."""
    found = []
    for entry in measured:
        try:
            found.append(Comparison(entry, predict(entry.params, entry.subject), None))
        except PlanError as error:
            found.append(Comparison(entry, None, str(error)))
    return tuple(sorted(found, key=lambda line: -1.0 if line.error is None else abs(line.error), reverse=True))
