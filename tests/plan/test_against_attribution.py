"""Predictions cause by cause, against the peak of a real step as the worker explains it."""

from __future__ import annotations

from typing import Any

import pytest

from bench.declare import Bound
from bench.plan import TrainSpec, model_named, predict_step
from bench.plan.moments import Target
from bench.records import Pass
from bench.worker.attribution_trace import explain_peak
from bench.worker.step import Step
from bench.workloads.train_step._memory import holdings
from tests.plan.tracking import made_step

FLASH = {"attention": "sdpa_flash"}
NEAR_BYTES = 2 * 5056 + 512
"""The state of torch's generator, which each checkpoint of the two layers keeps, and a handful of numbers."""


def explained(train: TrainSpec) -> tuple[str, dict[str, float]]:
    """Phase of the peak, and bytes by cause, of the third step of a tiny model."""
    step, inputs = made_step("tiny", train)
    for _ in range(2):
        step.phased(inputs, lambda phase: None)
    bound = Bound(step, prepare=step.prepare, phased=step.phased, holdings=lambda: holdings(step))
    measurements, facts = explain_peak(Step(bound, inputs, {}, Pass.STEP))
    causes = {found.metric.removeprefix("peak_").removesuffix("_bytes"): found.samples[0] for found in measurements}
    memory: Any = facts["memory_explained"]
    return memory["phase"], causes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seq_len", "changes"),
    [
        (128, {**FLASH}),
        (128, {}),
        (256, {**FLASH, "checkpointing": "full"}),
        (256, {**FLASH, "checkpointing": "selective", "linear_cross_entropy": "chunked"}),
        (256, {**FLASH, "linear_cross_entropy": "chunked"}),
        (128, {**FLASH, "precision": "bf16_amp"}),
        (16, {**FLASH, "precision": "bf16_master"}),
        (128, {**FLASH, "adaptation": "lora"}),
        (128, {**FLASH, "accumulation": 2}),
    ],
    ids=["flash", "eager", "checkpoints", "selective", "chunked loss", "autocast", "master", "adapters", "accumulation"],
)
def test_each_cause_of_a_measured_peak_is_predicted(seq_len: int, changes: dict[str, Any]) -> None:
    train = TrainSpec(seq_len=seq_len, batch=2, **changes)
    phase, causes = explained(train)
    peak = predict_step(model_named("tiny"), train, Target(cuda=False)).peak
    assert peak.phase == phase
    predicted = peak.by_category()
    for cause, size in causes.items():
        if cause != "other_residents":  # on a host nobody lists what is resident and has no name: here eager attention's mask
            assert abs(predicted.get(cause, 0) - size) <= NEAR_BYTES, cause
