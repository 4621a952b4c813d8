"""Several GPUs: what two ranks were measured to hold, shares of weights, gradients and states, and the buffers of the libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.plan import PlanError, Prediction, TrainSpec, model_named, predict_step
from bench.plan.coordinator import LIVE
from bench.plan.moments import Target
from bench.plan.predict import peak_bytes, predict
from bench.plan.rounding import pinned_bytes
from bench.plan.spec import ZeroOptions
from bench.plan.weights import parameters

LLAMA = model_named("llama-3-8b")
SMALL = {"seq_len": 128, "attention": "sdpa_flash", "optimizer": "adamw_fused", "linear_cross_entropy": "liger"}
RECORDED = json.loads((Path(__file__).parent / "two_ranks.json").read_text(encoding="utf-8"))
"""Peaks of steps on two ranks over gloo, as rows of `bench run` have them; nothing but bytes is used."""


def predicted(**changes: Any) -> Prediction:
    return predict_step(LLAMA, TrainSpec(**{**SMALL, "precision": "bf16_master", **changes}))


def at(prediction: Prediction, phase: str) -> dict[str, int]:
    return next(moment for moment in prediction.moments if moment.phase == phase).by_category()


def named(prediction: Prediction, name: str) -> set[int]:
    """Sizes of the terms of that name, in whichever moments they are."""
    return {term.size_bytes for moment in prediction.moments for term in moment.terms if term.name == name}


def recorded(row: dict[str, Any]) -> Prediction:
    return predict({**RECORDED["shapes"][row["shape"]], "world_size": 2}, row["subject"], Target(cuda=False))


@pytest.mark.parametrize("row", RECORDED["rows"], ids=lambda row: "-".join([row["shape"], *row["subject"].values()]))
def test_what_two_ranks_held_was_predicted_within_a_tenth(row: dict[str, Any]) -> None:
    assert recorded(row).peak_bytes == pytest.approx(row["peak_bytes"], rel=0.1)


@pytest.mark.parametrize(
    ("sharding", "precision", "phase"),
    [
        ("ddp", "fp32", "backward"),
        ("ddp", "fp32", "optimizer"),
        ("ddp", "bf16_master", "optimizer"),
        ("zero1", "fp32", "backward"),
        ("zero1", "fp32", "optimizer"),
        ("zero1", "bf16_master", "backward"),
        ("fsdp2", "bf16_master", "backward"),
    ],
)
def test_where_nothing_of_gloos_own_is_left_over_the_phase_is_predicted_to_the_kilobyte(
    sharding: str, precision: str, phase: str
) -> None:
    (row,) = (
        row for row in RECORDED["rows"]
        if row["shape"] == "four layers" and (row["subject"]["sharding"], row["subject"]["precision"]) == (sharding, precision)
    )  # fmt: skip
    assert recorded(row).by_phase()[phase] == pytest.approx(row["by_phase"][phase], abs=4096)


@pytest.mark.parametrize(("stage", "gradients"), [(1, 0.0), (2, 0.0), (3, 2 / 8)])
def test_zero_divides_what_its_stage_says(stage: int, gradients: float) -> None:
    update = at(predicted(sharding=f"zero{stage}", world_size=8), "optimizer")
    count = parameters(LLAMA)
    assert update["optimizer_states"] == pytest.approx(12 / 8 * count, rel=1e-3)
    assert update.get("gradients", 0) + update["temporaries"] >= gradients * count + 4 * min(count / 8, 1e9)
    assert update["parameters"] == pytest.approx(2 * count / (8 if stage == 3 else 1), rel=1e-3)


def test_zero_copies_fp32_weights_too_and_updates_one_flat_tensor() -> None:
    count = parameters(LLAMA)
    for optimizer, copies in (("adamw_fused", 2), ("adamw_foreach", 2), ("adamw_forloop", 3)):
        update = at(
            predicted(sharding="zero2", world_size=2, precision="fp32", attention="sdpa_efficient", optimizer=optimizer),
            "optimizer",
        )
        assert update["optimizer_states"] == pytest.approx(12 * count / 2, rel=1e-3)
        assert update["temporaries"] + update.get("gradients", 0) == pytest.approx(copies * 4 * count / 2, rel=0.2)
    eight = at(predicted(sharding="zero2", world_size=2, optimizer="adamw8bit_bnb"), "optimizer")
    assert eight["optimizer_states"] == pytest.approx((4 + 2 * (1 + 4 / 256)) * count / 2, rel=1e-3)


def test_zeros_buckets_are_made_whole_however_small_the_model_is() -> None:
    small = model_named("tiny")
    train = TrainSpec(seq_len=64, sharding="zero2", world_size=2, precision="fp32")
    assert peak_bytes(small, train) > 4 * 500_000_000
    fitting = TrainSpec(seq_len=64, sharding="zero2", world_size=2, precision="fp32", zero=ZeroOptions(reduce_bucket=100_000))
    doubled = TrainSpec(
        seq_len=64, sharding="zero2", world_size=2, precision="fp32", zero=ZeroOptions(reduce_bucket=100_000, overlap_comm="on")
    )
    assert peak_bytes(small, doubled) - peak_bytes(small, fitting) == 400_000


def test_stage_3_gathers_up_to_what_may_be_live_whatever_the_number_of_ranks() -> None:
    """Weights are fetched ahead until a thousand million are there; what was measured of two ranks is in `test_two_gpus.py`."""
    few, many = (predicted(sharding="zero3", world_size=ranks) for ranks in (8, 64))
    gathered = named(few, "gathered weights")
    assert gathered == named(many, "gathered weights")
    assert 2 * LIVE <= min(gathered) < max(gathered) < 2 * (LIVE + 128256 * 4096)
    assert named(predicted(sharding="zero3", world_size=8), "weights never divided") == {2 * 65 * 4096}
    persistent = predicted(sharding="zero3", world_size=8, zero=ZeroOptions(persistence_threshold=4096 * 1024))
    assert named(persistent, "weights never divided") == {2 * (65 * 4096 + 2 * 32 * 1024 * 4096)}


def test_a_gradient_larger_than_the_bucket_waits_for_the_next() -> None:
    def of_bucket(size: int) -> int:
        train = TrainSpec(seq_len=8192, sharding="zero2", world_size=8, precision="bf16_master", attention="sdpa_flash",
                          linear_cross_entropy="liger", zero=ZeroOptions(reduce_bucket=size))  # fmt: skip
        return next(moment for moment in predict_step(LLAMA, train).moments if moment.phase == "backward").by_category()[
            "gradients"
        ]

    head = 128256 * 4096
    assert of_bucket(head - 1) - of_bucket(head) == pytest.approx(2 * head, rel=0.001)


def test_offloaded_states_lie_on_the_host_and_nowhere_else() -> None:
    prediction, count = predicted(sharding="zero2", world_size=8, offload="optimizer"), parameters(LLAMA)
    assert "optimizer_states" not in at(prediction, "optimizer")
    pinned = 2 * pinned_bytes(4 * count // 8) + pinned_bytes(2 * count // 8) + pinned_bytes(2 * 128256 * 4096)
    assert prediction.host_bytes == pytest.approx(8 * count / 8 + pinned, rel=1e-3)
    everything = predicted(sharding="zero3", world_size=8, offload="parameters")
    tensors = 32 * (2 * 4 + 2 * 1 + 3 * 16) + 2 * 128  # MiB of each tensor's eighth, in powers of two
    pinned = tensors * 2**20 + pinned_bytes(4 * (count // 8)) + 2 * pinned_bytes(2 * count // 8)
    assert everything.host_bytes == pytest.approx(12 * count / 8 + pinned, rel=1e-3)


@pytest.mark.parametrize("sharding", ["fsdp2", "fsdp2_root_unit", "fsdp2_kept"])
def test_fsdp_keeps_sixteen_bytes_of_each_share(sharding: str) -> None:
    count, update = parameters(LLAMA), at(predicted(sharding=sharding, world_size=8), "optimizer")
    kept = update["parameters"] + update["gradients"] + update["optimizer_states"]
    assert kept == pytest.approx(16 * count / 8, rel=1e-3)


def test_the_root_unit_is_whole_throughout_and_units_of_their_own_only_while_they_run() -> None:
    root = predicted(sharding="fsdp2_root_unit", world_size=8, seq_len=4096)
    assert named(root, "weights of the root") == {2 * (2 * 128256 * 4096 + 4096)}
    apart = predicted(sharding="fsdp2", world_size=8, seq_len=4096)
    assert not named(apart, "weights of the root")
    assert root.peak_bytes - apart.peak_bytes > 2 * 128256 * 4096
    kept = predicted(sharding="fsdp2_kept", world_size=8, seq_len=4096)
    assert kept.peak_bytes - apart.peak_bytes == pytest.approx(2 * parameters(LLAMA), rel=0.1)


def test_a_units_gradients_are_whole_in_each_micro_batch_beside_the_shares_of_those_before() -> None:
    once, twice = (predicted(sharding="fsdp2", world_size=8, seq_len=4096, accumulation=count).by_phase() for count in (1, 2))
    shares, labels = 4 * parameters(LLAMA) / 8, 2 * 8 * 4096
    assert twice["forward"] - once["forward"] == pytest.approx(shares + labels, rel=1e-3)
    assert 0 < twice["backward"] - once["backward"] <= shares + labels


def test_a_tied_embedding_is_the_roots_whatever_is_asked() -> None:
    tied = model_named("llama-3.2-1b")
    peaks = {
        peak_bytes(tied, TrainSpec(seq_len=1024, sharding=name, world_size=8, precision="bf16_master"))
        for name in ("fsdp2", "fsdp2_root_unit")
    }
    assert len(peaks) == 1


def test_ddps_gradients_are_the_buckets_and_exist_once() -> None:
    alone = predict_step(LLAMA, TrainSpec(**{**SMALL, "precision": "bf16_pure"}))  # type: ignore[arg-type]
    together = predicted(precision="bf16_pure", sharding="ddp", world_size=2)
    assert together.by_phase()["optimizer"] == alone.by_phase()["optimizer"]
    assert at(together, "forward")["gradients"] == 2 * parameters(LLAMA)


def test_more_gpus_never_need_more_of_each() -> None:
    for sharding in ("zero1", "zero2", "zero3", "fsdp2", "fsdp2_root_unit"):
        peaks = [predicted(sharding=sharding, world_size=ranks).peak_bytes for ranks in (2, 8, 64)]
        assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize("sharding", ["ddp", "zero0", "zero1", "zero2", "zero3", "fsdp2", "fsdp2_root_unit", "fsdp2_kept"])
def test_the_peak_alone_is_that_of_the_prediction_under_each_sharding(sharding: str) -> None:
    for accumulation in (1, 4):
        train = TrainSpec(seq_len=512, sharding=sharding, world_size=4, precision="bf16_master", accumulation=accumulation)
        peak = predict_step(LLAMA, train).peak
        assert peak_bytes(LLAMA, train) == peak.size_bytes - peak.by_category().get("allocator_slack", 0)


@pytest.mark.parametrize(("sharding", "precision"), [("zero2", "bf16_pure"), ("fsdp2", "bf16_amp")])
def test_a_precision_that_the_library_does_not_train_in_is_refused(sharding: str, precision: str) -> None:
    with pytest.raises(PlanError, match=r"precision (is )?bf16_master"):
        predicted(sharding=sharding, world_size=2, precision=precision)


@pytest.mark.parametrize("options", [{"reduce_bucket": 0}, {"prefetch_bucket": -1}, {"contiguous_gradients": False}])
def test_settings_of_zero_that_cannot_be_or_are_not_modelled_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"buckets|contiguous_gradients"):
        ZeroOptions(**options)
