"""What a trial has learned so far: a reply is made of it however the trial ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.metrics import METRICS
from bench.records import Check, Cost, Json, Measurement, Proof, Scalar
from bench.worker import check
from bench.worker.subject import ImportClock


@dataclass(slots=True)
class Findings:
    """Measurements, checks, proof and facts, and what the subject refuses in its own words."""

    measurements: list[Measurement] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    proof: Proof | None = None
    cost: Cost | None = None
    runtime: dict[str, Scalar] = field(default_factory=dict)
    conditions: dict[str, Json] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()
    imports: ImportClock = field(default_factory=ImportClock)

    def add(self, metric: str, samples: tuple[float, ...], **details: Any) -> None:
        self.measurements.append(Measurement(metric, METRICS[metric].unit, samples, **details))

    def demand(self, checks: Iterable[Check]) -> None:
        """Each as soon as it is known; raises DisagreesError unless all passed."""
        for one in checks:
            self.checks.append(one)
        check.require(self.checks)
