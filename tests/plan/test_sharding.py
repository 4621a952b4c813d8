"""Several GPUs: shares of weights, gradients and states, and the buffers of the libraries."""

from __future__ import annotations

from typing import Any

import pytest

from bench.plan import PlanError, Prediction, TrainSpec, model_named, predict_step
from bench.plan.weights import parameters

LLAMA = model_named("llama-3-8b")
SMALL = {"seq_len": 128, "attention": "sdpa_flash", "optimizer": "adamw_fused", "linear_cross_entropy": "liger"}


def predicted(**changes: Any) -> Prediction:
    return predict_step(LLAMA, TrainSpec(**{**SMALL, "precision": "bf16_master", **changes}))


def at(prediction: Prediction, phase: str) -> dict[str, int]:
    return next(moment for moment in prediction.moments if moment.phase == phase).by_category()


@pytest.mark.parametrize(("stage", "states", "gradients"), [(1, 12 / 8, 2.0), (2, 12 / 8, 2 / 8), (3, 12 / 8, 2 / 8)])
def test_zero_divides_what_its_stage_says(stage: int, states: float, gradients: float) -> None:
    update = at(predicted(sharding=f"zero{stage}", world_size=8), "optimizer")
    count = parameters(LLAMA)
    assert update["optimizer_states"] == pytest.approx(states * count, rel=1e-3)
    updated = min(count / 8, 1e9) if stage == 3 else count / 8  # stage 3 goes by groups of 1e9
    assert update["gradients"] == pytest.approx(gradients * count + 4 * updated, rel=1e-3)
    assert update["parameters"] == pytest.approx(2 * count / (8 if stage == 3 else 1), rel=1e-3)


def test_zeros_buckets_are_those_of_deepspeeds_defaults() -> None:
    terms = {term.name: term.size_bytes for term in predicted(sharding="zero3", world_size=8).peak.terms}
    assert terms["bucket to reduce"] == 10**9
    small = {term.name: term.size_bytes for term in predicted(sharding="zero3", world_size=8, reduce_bucket=4096**2).peak.terms}
    assert small["bucket to reduce"] == 2 * 4096**2
    gathered = next(
        term
        for moment in predicted(sharding="zero3", world_size=8).moments
        for term in moment.terms
        if term.name == "gathered weights"
    )
    assert gathered.size_bytes == 2 * (10**9 + 5 * 10**7)


def test_offloaded_states_lie_on_the_host_and_nowhere_else() -> None:
    prediction = predicted(sharding="zero2", world_size=8, offload="optimizer")
    assert "optimizer_states" not in at(prediction, "optimizer")
    assert prediction.host_bytes == pytest.approx(16 * parameters(LLAMA) / 8, rel=1e-3)
    everything = predicted(sharding="zero3", world_size=8, offload="parameters")
    assert everything.host_bytes == pytest.approx(18 * parameters(LLAMA) / 8, rel=1e-3)


def test_fsdp_keeps_sixteen_bytes_of_each_share_and_the_root_whole() -> None:
    prediction = predicted(sharding="fsdp2", world_size=8)
    count, update = parameters(LLAMA), at(prediction, "optimizer")
    kept = update["parameters"] + update["gradients"] + update["optimizer_states"]
    assert kept == pytest.approx(16 * count / 8, rel=1e-3)
    root = next(term for moment in prediction.moments for term in moment.terms if term.name == "root unit, gathered")
    assert root.size_bytes == 2 * (2 * 128256 * 4096 + 4096)


def test_ddp_copies_gradients_into_buckets() -> None:
    alone = predict_step(LLAMA, TrainSpec(**{**SMALL, "precision": "bf16_pure"}))  # type: ignore[arg-type]
    together = predicted(precision="bf16_pure", sharding="ddp", world_size=2)
    assert together.peak_bytes - alone.peak_bytes == 2 * parameters(LLAMA)


def test_more_gpus_never_need_more_of_each() -> None:
    for sharding in ("zero1", "zero2", "zero3", "fsdp2"):
        peaks = [predicted(sharding=sharding, world_size=ranks).peak_bytes for ranks in (2, 8, 64)]
        assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize(("sharding", "precision"), [("zero2", "bf16_pure"), ("fsdp2", "bf16_amp")])
def test_a_precision_that_the_library_does_not_train_in_is_refused(sharding: str, precision: str) -> None:
    with pytest.raises(PlanError, match=r"precision (is )?bf16_master"):
        predicted(sharding=sharding, world_size=2, precision=precision)
