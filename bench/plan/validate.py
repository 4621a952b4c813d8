"""Predictions beside measured peaks: an error table from rows of the workload `train_step`.

A prediction passes where the whole is within 5 % and every cause within 10 % or 100 MiB; of several GPUs, whose libraries keep buffers
that no cause names, where the whole is within 10 %. Nothing is fitted: what is off is shown. Of a device only its constants are calibrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.plan.predict import predict
from bench.plan.residents import CUBLAS_BYTES, CUBLAS_HANDLES
from bench.plan.spec import PlanError
from bench.plan.terms import CAUSES, Prediction
from bench.stats import median, quantile

WHOLE_ERROR = 0.05
WHOLE_ERROR_OF_SEVERAL = 0.10
"""Where GPUs share a step."""
CAUSE_ERROR = 0.10
CAUSE_BYTES = 100 * 2**20
RESIDENT_CAUSES = ("other_residents", "unattributed", "allocator_slack")
"""Not judged alone: a measurement puts into them what it cannot name."""

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Measured:
    """The peak of one case as it was measured on CUDA: medians over its trials."""

    params: Mapping[str, Any]
    subject: Mapping[str, str]
    peak_bytes: float
    causes: Mapping[str, float]
    """Bytes by cause; empty where the peak was not explained."""
    part: str = OTHER
    """`development` or `drawn` of the grid; `other` beside it."""
    foretold_bytes: int | None = None
    """The peak that was predicted before it was measured; None where the row has none."""
    device: str = ""
    """GPU and driver."""

    @property
    def allowed(self) -> float:
        """Error of the whole that is granted."""
        return WHOLE_ERROR if self.params.get("world_size", 1) == 1 else WHOLE_ERROR_OF_SEVERAL


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

    @property
    def foretold_error(self) -> float | None:
        """Of the prediction made before the measurement, by the formulas of that day."""
        return None if self.measured.foretold_bytes is None else self.measured.foretold_bytes / self.measured.peak_bytes - 1

    def residuals(self) -> dict[str, float]:
        """Cause to predicted less measured bytes; empty where one of the two is missing."""
        if self.prediction is None or not self.measured.causes:
            return {}
        predicted = self.prediction.peak.by_category()
        return {cause: predicted.get(cause, 0) - self.measured.causes.get(cause, 0.0) for cause in CAUSES}

    def causes_off(self) -> dict[str, tuple[float, float]]:
        """Cause to (predicted, measured) bytes, of those that are off by more than is granted."""
        off = {}
        for cause, residual in self.residuals().items():
            theirs = self.measured.causes.get(cause, 0.0)
            if cause not in RESIDENT_CAUSES and abs(residual) > max(CAUSE_BYTES, CAUSE_ERROR * theirs):
                off[cause] = (theirs + residual, theirs)
        return off

    @property
    def passed(self) -> bool | None:
        """None where nothing was predicted."""
        error = self.error
        if error is None:
            return None
        shared = self.measured.allowed > WHOLE_ERROR
        return abs(error) <= self.measured.allowed and (shared or not self.causes_off())


def compare(measured: Iterable[Measured]) -> tuple[Comparison, ...]:
    """Each beside its prediction, the largest error first, what has no formulas last."""
    found = []
    for entry in measured:
        try:
            found.append(Comparison(entry, predict(entry.params, entry.subject), None))
        except PlanError as error:
            found.append(Comparison(entry, None, str(error)))
    return tuple(sorted(found, key=lambda line: -1.0 if line.error is None else abs(line.error), reverse=True))


@dataclass(frozen=True, slots=True)
class Summary:
    """How near the predictions of some cases are. Errors are without sign, as shares of the measured peak."""

    part: str
    cases: int
    predicted: int
    within: int
    """Of the predicted, those whose whole is within what is granted."""
    median: float
    percentile_95: float
    largest: float


@dataclass(frozen=True, slots=True)
class CauseSummary:
    """How near the bytes of one cause are, over all cases whose peak was explained."""

    cause: str
    measured_bytes: float
    """The largest of them."""
    median: float
    """Of the distances, as shares of the whole peak."""
    largest_bytes: float
    """The largest distance, predicted less measured."""


@dataclass(frozen=True, slots=True)
class DeviceConstant:
    """What PyTorch keeps for cuBLAS on one device with one driver, as measured: the one thing that is taken from measurements."""

    device: str
    cases: int
    workspace_bytes: float
    """Of all handles: the median of what resides besides the step's own tensors."""
    predicted_bytes: int


def device_constants(lines: Sequence[Comparison]) -> tuple[DeviceConstant, ...]:
    """By device, of cases whose peak was explained."""
    found: dict[str, list[float]] = {}
    predicted = CUBLAS_HANDLES * CUBLAS_BYTES
    for line in lines:
        off = line.residuals().get("other_residents")
        if off is not None and line.measured.device:
            found.setdefault(line.measured.device, []).append(predicted - off)
    return tuple(DeviceConstant(device, len(sizes), median(sizes), predicted) for device, sizes in sorted(found.items()))


def summaries(lines: Sequence[Comparison]) -> tuple[Summary, ...]:
    """One for each part that has predictions, in the order of their names, and one for all."""
    names = sorted({line.measured.part for line in lines})
    parts = {name: [line for line in lines if line.measured.part == name] for name in names}
    if len(parts) > 1:
        parts["all"] = list(lines)
    found = []
    for part, own in parts.items():
        errors = sorted(abs(line.error) for line in own if line.error is not None)
        if errors:
            within = sum(abs(line.error) <= line.measured.allowed for line in own if line.error is not None)
            found.append(Summary(part, len(own), len(errors), within, median(errors), quantile(errors, 0.95), errors[-1]))
    return tuple(found)


def by_cause(lines: Sequence[Comparison]) -> tuple[CauseSummary, ...]:
    """The cause with the largest distance first; causes that neither side has are left out."""
    found = []
    told = [(line.measured, residuals) for line in lines if (residuals := line.residuals())]
    for cause in CAUSES:
        measured = max((entry.causes.get(cause, 0.0) for entry, _ in told), default=0.0)
        largest = max((residuals[cause] for _, residuals in told), key=abs, default=0.0)
        if measured or largest:
            shares = [abs(residuals[cause]) / entry.peak_bytes for entry, residuals in told]
            found.append(CauseSummary(cause, measured, median(shares), largest))
    return tuple(sorted(found, key=lambda entry: -abs(entry.largest_bytes)))
