"""An engine of one rank: nothing is shared out, and what it takes by itself was measured on an H200; so is what offloading leaves there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.plan import PlanError, Prediction, TrainSpec, model_named, predict_step
from bench.plan.predict import predict
from bench.plan.rounding import pinned_bytes
from bench.plan.spec import SHARDINGS
from bench.plan.terms import CAUSES
from bench.plan.validate import RESIDENT_CAUSES
from bench.plan.zero import SUMMED_AT_ONCE

RECORDED = json.loads((Path(__file__).parent / "one_rank.json").read_text(encoding="utf-8"))
"""Peaks of steps on one H200, as rows of `bench run` have them; nothing but bytes is used."""
INTERPRETER_BYTES = 2.2 * 2**30
"""Python, torch and CUDA in the host's memory: at most what rows without offloading have there."""


def recorded(row: dict[str, Any]) -> Prediction:
    return predict({**RECORDED["shape"], "clip_norm": row.get("clip_norm", 1.0), "world_size": 1}, row["subject"])


def name_of(row: dict[str, Any]) -> str:
    return "-".join(row["subject"].values())


@pytest.mark.parametrize("row", RECORDED["rows"], ids=name_of)
def test_what_one_rank_held_was_predicted_to_a_thousandth_in_each_phase(row: dict[str, Any]) -> None:
    phases = recorded(row).by_phase()
    phases["forward"] = max(phases["forward"], phases.pop("loss"))  # which is the end of a measured forward
    assert recorded(row).peak_bytes == pytest.approx(row["peak_bytes"], rel=0.001)
    for phase, measured in row["by_phase"].items():
        assert phases[phase] == pytest.approx(measured, rel=0.002), phase


@pytest.mark.parametrize("row", RECORDED["rows"], ids=name_of)
def test_every_cause_at_the_peak_was_predicted_to_the_megabyte(row: dict[str, Any]) -> None:
    causes = recorded(row).peak.by_category()
    for cause in (cause for cause in CAUSES if cause not in RESIDENT_CAUSES):
        assert causes.get(cause, 0) == pytest.approx(row["causes"].get(cause, 0), abs=2**20), cause
    assert causes["other_residents"] == pytest.approx(row["causes"]["other_residents"], abs=4 * 2**20)


@pytest.mark.parametrize("row", [row for row in RECORDED["rows"] if "host_pinned_bytes" in row], ids=name_of)
def test_host_memory_was_predicted_with_what_pinning_rounds_up(row: dict[str, Any]) -> None:
    host = recorded(row).host_bytes
    assert row["host_pinned_bytes"] < host < row["host_resident_bytes"]
    assert host == pytest.approx(row["host_resident_bytes"], abs=INTERPRETER_BYTES)


def test_pinned_memory_comes_in_powers_of_two() -> None:
    assert [pinned_bytes(size) for size in (0, 1, 4096, 4097, 5 * 2**30)] == [0, 1, 4096, 8192, 8 * 2**30]


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_one_gpu_may_have_every_sharding_and_is_told_that_nothing_is_shared(sharding: str) -> None:
    found = predict_step(model_named("tiny"), TrainSpec(seq_len=64, sharding=sharding, precision="bf16_master"))
    assert any("on one GPU shares nothing out" in note for note in found.notes) == (sharding != "none")


def test_offloaded_parameters_are_copied_to_the_gpu_even_where_one_rank_has_all_of_them() -> None:
    train = TrainSpec(seq_len=512, sharding="zero3", offload="parameters", precision="bf16_master")
    peak = predict_step(model_named("llama-3.2-1b"), train).peak
    assert "gathered weights" in {term.name for term in peak.terms}


def test_torchaos_offload_keeps_states_of_small_tensors_on_the_gpu_and_takes_no_clipping() -> None:
    model = model_named("llama-3.2-1b")
    causes = predict_step(model, TrainSpec(seq_len=512, offload="optimizer_ao", clip_norm=0.0)).peak.by_category()
    norms = (2 * model.layers + 1) * model.hidden_size
    assert causes["optimizer_states"] == pytest.approx(2 * 2 * norms, abs=4096)
    with pytest.raises(PlanError, match="--clip-norm 0"):
        TrainSpec(seq_len=512, offload="optimizer_ao")


def test_stage_0_casts_adapters_and_keeps_an_fp32_copy_of_them() -> None:
    model = model_named("llama-3.2-1b")
    lora = {"seq_len": 512, "adaptation": "lora"}
    engine = predict_step(model, TrainSpec(**lora, sharding="zero0", precision="bf16_master"))  # type: ignore[arg-type]
    sizes = {term.name: term.size_bytes for moment in engine.moments for term in moment.terms}
    adapters = sum(size for name, size in sizes.items() if name.startswith("weights: ") and " adapter " in name)
    assert adapters
    assert sizes["master copy"] == 2 * adapters


def test_gradients_of_stage_0_are_laid_flat_by_buckets_that_a_tensor_may_pass() -> None:
    model = model_named("llama-3-8b")
    train = TrainSpec(seq_len=128, sharding="zero0", world_size=2, precision="bf16_master", linear_cross_entropy="liger",
                      checkpointing="full")  # fmt: skip
    moment = next(moment for moment in predict_step(model, train).moments if moment.phase == "backward")
    assert moment.name == "gradients summed"
    laid = next(term for term in moment.terms if term.name.startswith("gradients laid flat"))
    last_layer = 128256 * 4096
    assert last_layer < laid.size_bytes / 2 <= SUMMED_AT_ONCE + last_layer  # what lay in the bucket before it did not fill it
