"""What fits stands in the order of the rule, grows with the GPU, and its longest context is the longest one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from bench.plan import PlanError, TrainSpec, model_named, predict_step
from bench.plan.devices import Host, gpu_named, gpus, parse_size
from bench.plan.fits import BESIDES_TOKENS, CONTEXT_STEP, choices, largest, rule_cost
from bench.plan.moments import Target
from bench.plan.predict import peak_bytes
from bench.plan.rounding import needed_bytes
from bench.plan.weights import parameters

LLAMA = model_named("llama-3-8b")


def test_rows_come_by_cost_and_each_dearer_one_needs_less() -> None:
    asked, *others = choices(LLAMA, TrainSpec(seq_len=8192), gpu_named("h200").memory_bytes, most=40)
    assert asked.changes == ()
    same_training = [way for way in others if way.train.adaptation == "full"]
    assert [way.cost for way in same_training] == sorted(way.cost for way in same_training)
    for kept in ([way for way in others if way in same_training], [way for way in others if way not in same_training]):
        peaks = [way.peak_bytes for way in kept]
        assert peaks == sorted(peaks, reverse=True)
        assert len(set(peaks)) == len(peaks)
    assert all(way.fits for way in others)


def test_where_only_frozen_weights_fit_the_rows_say_so() -> None:
    asked, *others = choices(LLAMA, TrainSpec(seq_len=4096), gpu_named("rtx-4090").memory_bytes)
    assert not asked.fits
    assert asked.longest_context is None
    assert {way.train.adaptation for way in others if way.train.offload == "none"} == {"lora"}
    assert all(way.host_bytes > 2 * parameters(LLAMA) for way in others if way.train.adaptation == "full")


def test_several_gpus_are_answered_with_what_their_libraries_can_do() -> None:
    asked, *others = choices(
        LLAMA, TrainSpec(seq_len=8192, world_size=8, sharding="fsdp2"), gpu_named("h100").memory_bytes, most=40
    )
    assert asked.train.sharding == "fsdp2"
    assert others
    assert not [
        way for way in others if way.train.sharding.startswith("zero")
    ]  # asked for in pure bf16, which DeepSpeed does not train
    ways = choices(
        LLAMA,
        TrainSpec(seq_len=8192, world_size=8, sharding="fsdp2", precision="bf16_master"),
        gpu_named("h100").memory_bytes,
        most=40,
    )
    assert {way.train.sharding for way in ways} > {"fsdp2", "zero3"}
    assert not [way for way in ways if way.train.sharding == "fsdp2" and way.train.optimizer.endswith("_bnb")]


def test_where_nothing_fits_the_smallest_ways_are_shown_as_not_fitting() -> None:
    ways = choices(model_named("llama-3-70b"), TrainSpec(seq_len=8192), parse_size("4GB"))
    assert len(ways) == 4
    assert not any(way.fits for way in ways)


def test_what_is_asked_for_is_shown_once_though_it_would_be_offered_too() -> None:
    fused = {"attention": "sdpa_flash", "rms_norm": "liger", "rope": "liger", "swiglu": "liger", "linear_cross_entropy": "liger"}
    for changes, memory in (
        ({"adaptation": "lora", "linear": "nf4_bnb"}, "24GB"),
        ({}, "80GB"),
        ({"checkpointing": "full"}, "4GB"),
    ):
        asked = TrainSpec(seq_len=2048, optimizer="adamw_fused", **fused, **changes)
        ways = [way.train for way in choices(LLAMA, asked, parse_size(memory))]
        assert ways.count(asked) == 1
        assert len(ways) > 1


def test_where_only_what_is_asked_for_fits_nothing_that_does_not_is_offered_beside_it() -> None:
    fused = {"attention": "sdpa_flash", "rms_norm": "liger", "rope": "liger", "swiglu": "liger", "linear_cross_entropy": "liger"}
    least = {"adaptation": "lora", "linear": "nf4_bnb", "checkpointing": "full_offloaded", "optimizer": "adamw_fused"}
    asked = TrainSpec(seq_len=2048, **fused, **least)
    memory = needed_bytes(peak_bytes(LLAMA, asked))
    (only,) = choices(LLAMA, asked, memory)
    assert only.fits


def test_a_host_that_is_too_small_makes_ways_unfit_that_lie_on_it() -> None:
    asked, memory = TrainSpec(seq_len=4096, precision="bf16_master"), parse_size("24GB")
    plenty, scarce = (choices(LLAMA, asked, memory, host=Host(size * 2**30, 1)) for size in (256, 48))
    assert [way.train for way in plenty] == [way.train for way in choices(LLAMA, asked, memory)]
    assert any(way.host_bytes > 48 * 2**30 and way.fits for way in plenty)
    assert all(way.host_bytes < 48 * 2**30 for way in scarce if way.fits)
    assert any(way.train.adaptation == "lora" and way.fits for way in scarce)


def test_gpus_of_one_host_share_its_memory() -> None:
    fused = {"attention": "sdpa_flash", "optimizer": "adamw_cpu_deepspeed"}
    asked = TrainSpec(seq_len=4096, precision="bf16_master", world_size=8, sharding="zero3", offload="parameters", **fused)  # type: ignore[arg-type]
    (first, *_), (shared, *_) = (choices(LLAMA, asked, parse_size("80GB"), host=Host(128 * 2**30, gpus)) for gpus in (1, 8))
    assert (first.fits, shared.fits, shared.longest_context) == (True, False, None)


def test_the_longest_context_is_that_of_the_host_where_checkpoints_lie_there() -> None:
    asked = TrainSpec(seq_len=4096, attention="sdpa_flash", linear_cross_entropy="liger", checkpointing="full_offloaded")
    (on_gpu, *_), (on_host, *_) = (choices(LLAMA, asked, parse_size("141GB"), host=host) for host in (Host(), Host(20 * 2**30, 1)))
    assert on_gpu.longest_context is not None
    # 32 layers, each of 2^16 tokens with 4096 numbers of 16 bits, are 16 GiB; one token more makes it 32.
    assert on_host.longest_context == 2**16 < on_gpu.longest_context


def test_one_gpu_is_offered_an_engine_only_for_what_it_moves_to_the_host() -> None:
    asked = TrainSpec(seq_len=4096, precision="bf16_master", clip_norm=0.0)
    ways = [way for memory in ("32GB", "24GB") for way in choices(LLAMA, asked, parse_size(memory))[1:]]
    assert all((way.train.sharding == "none") == (way.train.offload in ("none", "optimizer_ao")) for way in ways)
    assert {"zero2", "fsdp2"} <= {way.train.sharding for way in ways}


def test_what_an_update_on_the_host_adds_weighs_less_the_more_tokens_and_gpus_share_it() -> None:
    def added(**changes: Any) -> float:
        train = TrainSpec(seq_len=4096, precision="bf16_master", sharding="zero2", offload="optimizer", **changes)
        return rule_cost(train) - rule_cost(replace(train, offload="none"))

    assert added(accumulation=4) == pytest.approx(added() * (4096 + BESIDES_TOKENS) / (4 * 4096 + BESIDES_TOKENS))
    assert added(world_size=8) == pytest.approx(added() / 8)
    assert rule_cost(TrainSpec(seq_len=4096, optimizer="adamw8bit_bnb", adaptation="lora")) == 1.0


@pytest.mark.parametrize(
    ("way", "beside", "measured"),
    [
        ({"checkpointing": "full"}, {}, 8053 / 6685),
        ({"checkpointing": "full", "optimizer": "adamw8bit_bnb"}, {}, 8053 / 4243),
        ({"checkpointing": "full", "adaptation": "lora", "linear": "nf4_bnb"}, {}, 8053 / 3829),
        ({"adaptation": "lora"}, {}, 8053 / 7820),
        ({"sharding": "zero2", "offload": "optimizer"}, {"batch": 2, "precision": "bf16_master"}, 38997 / 5578),
        ({"offload": "optimizer_ao"}, {"batch": 2, "clip_norm": 0.0}, 28256 / 10322),
    ],
)
def test_the_rule_is_as_dear_as_an_h200_had_it(way: dict[str, Any], beside: dict[str, Any], measured: float) -> None:
    """Tokens per second of steps of 2048 tokens: plain ones over these. Of an 8B model, and of a 1B one where states left the GPU."""
    plain = TrainSpec(seq_len=2048, optimizer="adamw_fused", **beside)
    assert rule_cost(replace(plain, **way)) / rule_cost(plain) == pytest.approx(measured, rel=0.12)


def test_adapters_are_shown_beside_full_training_that_costs_more_and_needs_less() -> None:
    asked = TrainSpec(seq_len=4096, world_size=8, sharding="zero3", precision="bf16_master")
    ways = choices(model_named("llama-3-70b"), asked, gpu_named("h200").memory_bytes)[1:]
    full, lora = ([way for way in ways if way.train.adaptation == kind] for kind in ("full", "lora"))
    assert len(full) > len(lora) >= 3
    assert min(way.peak_bytes for way in full) < min(way.peak_bytes for way in lora)
    assert min(way.cost for way in lora) < min(way.cost for way in full)


def test_the_longest_context_fits_and_one_step_more_does_not() -> None:
    memory = gpu_named("h200").memory_bytes
    for way in choices(LLAMA, TrainSpec(seq_len=8192), memory, most=4)[1:]:
        assert way.longest_context is not None
        at, beyond = (peak_bytes(LLAMA, replace(way.train, seq_len=way.longest_context + more)) for more in (0, CONTEXT_STEP))
        assert needed_bytes(at) <= memory < needed_bytes(beyond)


def test_the_search_finds_the_last_that_fits_for_any_growing_size() -> None:
    drawn = random.Random(7)
    for _ in range(200):
        fixed, slope, bend, limit = drawn.randrange(1000), drawn.randrange(1, 50), drawn.randrange(3), drawn.randrange(10, 10**6)
        most, guess = drawn.randrange(1, 5000), drawn.randrange(1, 6000)

        def size(n: int, fixed: int = fixed, slope: int = slope, bend: int = bend) -> int:
            return fixed + slope * n + bend * n * n

        found = largest(size, limit, most=most, guess=guess)
        fitting = [n for n in range(1, most + 1) if size(n) <= limit]
        assert found == (fitting[-1] if fitting else None)


def test_the_peak_alone_is_that_of_the_whole_prediction_without_rounding() -> None:
    for changes in ({}, {"checkpointing": "full"}, {"precision": "bf16_amp", "attention": "sdpa_flash"}, {"accumulation": 4}):
        train = TrainSpec(seq_len=1024, **changes)  # type: ignore[arg-type]
        peak = predict_step(LLAMA, train).peak
        assert peak_bytes(LLAMA, train) == peak.size_bytes - peak.by_category().get("allocator_slack", 0)


@pytest.mark.parametrize(
    ("text", "size"), [("80GB", 80 * 10**9), ("79.1GiB", int(79.1 * 2**30)), ("24", 24 * 10**9), ("512MiB", 2**29)]
)
def test_sizes_are_read_as_they_are_written(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-3GB", "80 apples"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="write 80GB"):
        parse_size(text)


def test_gpus_answer_to_their_names_and_no_other() -> None:
    assert gpu_named("H200") == gpus()["h200"]
    assert gpu_named("NVIDIA RTX 4090") == gpu_named("4090") == gpus()["rtx-4090"]
    assert gpu_named("A100-80") == gpus()["a100-80gb"]
    assert gpu_named("A100-40") == gpus()["a100-40gb"]
    with pytest.raises(PlanError, match="did you mean 'a100-"):
        gpu_named("a100")
    with pytest.raises(PlanError, match=r"called '99' here\. Known: "):
        gpu_named("99")


def test_a_gpu_before_hopper_has_smaller_workspaces_and_nothing_else_of_a_prediction_depends_on_it() -> None:
    train = TrainSpec(seq_len=1024, attention="sdpa_flash")
    older, newer = (
        predict_step(LLAMA, train, Target(workspace_bytes=gpu_named(name).workspace_bytes)) for name in ("4090", "h200")
    )
    assert newer == predict_step(LLAMA, train)
    assert newer.peak_bytes - older.peak_bytes == 2 * (32 * 2**20 - 8_519_680)
    memory = gpu_named("4090").memory_bytes
    (asked, *_) = choices(LLAMA, train, memory, target=Target(workspace_bytes=gpu_named("4090").workspace_bytes))
    assert asked.peak_bytes == older.peak_bytes - older.peak.by_category().get("allocator_slack", 0)
