"""Predictions against the training step itself: fake tensors through the dispatcher, real ones through torch's profiler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.plan import TrainSpec, model_named, predict_step
from bench.plan.moments import Target
from tests.plan.tracking import profiled_peak, tracked_peaks

TRACKER = Target(cuda=False, in_place=False)
HOST = Target(cuda=False)
FLASH = {"attention": "sdpa_flash"}
LAYERS = 6
CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "plain": (64, 2, {}),
    "one sequence": (256, 1, {}),
    "dropout": (64, 2, {"dropout": 0.1}),
    "math": (64, 2, {"attention": "sdpa_math"}),
    "math, one sequence": (256, 1, {"attention": "sdpa_math", "linear_cross_entropy": "chunked"}),
    "flash": (64, 2, FLASH),
    "chunked loss": (256, 2, {**FLASH, "linear_cross_entropy": "chunked"}),
    "checkpoints": (128, 2, {**FLASH, "checkpointing": "full"}),
    "checkpoints, long and eager": (512, 1, {"checkpointing": "full", "linear_cross_entropy": "chunked"}),
    "every second": (128, 2, {**FLASH, "checkpointing": "every_second"}),
    "selective": (256, 2, {**FLASH, "checkpointing": "selective", "linear_cross_entropy": "chunked"}),
    "selective, eager": (256, 2, {"checkpointing": "selective"}),
    "fp32": (64, 2, {**FLASH, "precision": "fp32"}),
    "autocast": (128, 2, {**FLASH, "precision": "bf16_amp"}),
    "autocast, checkpoints": (
        256,
        2,
        {**FLASH, "precision": "bf16_amp", "checkpointing": "full", "linear_cross_entropy": "chunked"},
    ),
    "master": (64, 2, {**FLASH, "precision": "bf16_master"}),
    "accumulation": (64, 2, {**FLASH, "accumulation": 3}),
    "autocast, accumulation": (64, 2, {**FLASH, "precision": "bf16_amp", "accumulation": 2}),
    "adapters": (64, 2, {**FLASH, "adaptation": "lora"}),
    "adapters, checkpoints": (64, 2, {**FLASH, "adaptation": "lora", "checkpointing": "full"}),
    "adapters, autocast": (64, 2, {**FLASH, "adaptation": "lora", "precision": "bf16_amp"}),
    "adapters, autocast, selective": (64, 4, {"adaptation": "lora", "precision": "bf16_amp", "checkpointing": "selective"}),
    "adapters, master, checkpoints, accumulation": (
        64,
        2,
        {**FLASH, "adaptation": "lora", "precision": "bf16_master", "checkpointing": "full", "accumulation": 2},
    ),
    "loop": (16, 1, {**FLASH, "optimizer": "adamw_forloop"}),
    "sgd": (16, 1, {**FLASH, "optimizer": "sgd"}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_each_phase_of_a_small_step_is_predicted_to_half_a_percent(case: str) -> None:
    seq_len, batch, changes = CASES[case]
    train = TrainSpec(seq_len=seq_len, batch=batch, **changes)
    predicted = predict_step(model_named("tiny"), train, TRACKER).by_phase()
    tracked = tracked_peaks("tiny", train)
    for phase in ("forward", "loss", "backward", "optimizer"):
        assert predicted[phase] == pytest.approx(tracked[phase], rel=0.005), phase


@pytest.mark.parametrize("case", ["flash", "checkpoints", "checkpoints, long and eager", "chunked loss", "autocast", "adapters"])
def test_the_peak_of_a_real_step_on_the_host_is_predicted_to_half_a_percent(case: str) -> None:
    seq_len, batch, changes = CASES[case]
    train = TrainSpec(seq_len=seq_len, batch=batch, **changes)
    prediction = predict_step(model_named("tiny"), train, HOST)
    lasting = ("parameters", "optimizer_states", "inputs", "other_residents")
    resident = sum(term.size_bytes for term in prediction.moments[0].terms if term.category in lasting)
    assert prediction.peak_bytes - resident == pytest.approx(profiled_peak("tiny", train), rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("llama-3.2-1b", {**FLASH}),
        ("llama-3.2-1b", {**FLASH, "checkpointing": "full"}),
        ("qwen3-8b", {**FLASH, "checkpointing": "full", "linear_cross_entropy": "chunked"}),
        ("qwen2.5-7b", {**FLASH}),
    ],
    ids=["1b", "1b checkpoints", "qwen3 head norms", "qwen2 biases"],
)
def test_each_phase_of_a_real_model_is_predicted_to_half_a_percent(model: str, changes: dict[str, Any]) -> None:
    """Of its own sizes, but fewer of its layers, which are all alike."""
    train = TrainSpec(seq_len=2048, batch=2, **changes)
    predicted = predict_step(replace(model_named(model), layers=LAYERS), train, TRACKER).by_phase()
    tracked = tracked_peaks(model, train, layers=LAYERS)
    for phase in ("forward", "loss", "backward", "optimizer"):
        assert predicted[phase] == pytest.approx(tracked[phase], rel=0.005), phase
