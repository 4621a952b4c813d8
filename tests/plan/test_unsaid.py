"""Whatever a prediction counts on stands in a tool's settings, or is told beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.plan import PlanError, TrainSpec, model_named
from bench.plan.emit import settings
from bench.plan.fits import choices
from bench.plan.spec import ZeroOptions
from bench.plan.unsaid import differences

LLAMA, SMALL = model_named("llama-3-8b"), model_named("llama-3.2-1b")
TOOLS = ("hf", "deepspeed", "accelerate", "torchtune")
PLAIN = TrainSpec(seq_len=2048)
SHARDED = TrainSpec(seq_len=2048, world_size=4, sharding="fsdp2", precision="bf16_master", attention="sdpa_flash")
FUSED = {"attention": "sdpa_flash", "rms_norm": "liger", "rope": "liger", "swiglu": "liger", "linear_cross_entropy": "liger"}


def told(tool: str, train: TrainSpec) -> str:
    """Settings and what is told beside them; why not, where there are none."""
    try:
        return "\n".join((settings(tool, LLAMA, train), *differences(tool, LLAMA, train)))
    except PlanError as error:
        return f"refused: {error}"


def in_code(tool: str, train: TrainSpec) -> list[str]:
    """What is to be said in code."""
    words = [said for said in differences(tool, LLAMA, train) if "say it in code: " in said]
    return words[0].partition("say it in code: ")[2].split(", ") if words else []


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "changes",
    [
        {"attention": "flash_attn2"},
        {"rms_norm": "liger"},
        {"rope": "liger"},
        {"swiglu": "liger"},
        {"linear_cross_entropy": "liger"},
        {"adaptation": "lora"},
        {"adaptation": "lora", "lora_rank": 64},
        {"adaptation": "lora", "linear": "nf4_bnb"},
        {"adaptation": "lora", "linear": "nf4_bnb_double"},
        {"adaptation": "lora", "linear": "fp4_bnb"},
        {"optimizer": "adamw_fused"},
        {"checkpointing": "full"},
        {"checkpointing": "every_second"},
        {"checkpointing": "selective"},
        {"checkpointing": "full_offloaded"},
        {"precision": "bf16_amp"},
        {"precision": "fp32"},
        {"precision": "bf16_pure"},
        {"dropout": 0.25},
        {"accumulation": 7},
        {"batch": 3},
        {"clip_norm": 0.5},
        {"seq_len": 4096},
        {"offload": "parameters"},
        {"sharding": "fsdp2_kept"},
        {"sharding": "fsdp2_root_unit"},
        {"sharding": "zero2"},
        {"sharding": "zero3", "offload": "optimizer"},
        {"sharding": "zero3", "offload": "optimizer_nvme"},
        {"sharding": "ddp", "precision": "bf16_amp"},
        {"sharding": "none", "world_size": 1, "precision": "tf32"},
    ],
)
def test_nothing_that_changes_a_prediction_is_left_out_in_silence(tool: str, changes: dict[str, object]) -> None:
    base = replace(SHARDED, sharding="zero3") if tool == "deepspeed" else SHARDED
    try:
        other = replace(base, **changes)  # type: ignore[arg-type]
    except PlanError:
        return  # what cannot be has no settings
    said = told(tool, other)
    assert other == base or said.startswith("refused") or said != told(tool, base)


def test_every_row_that_is_offered_has_settings_with_its_offload_or_is_refused_in_words() -> None:
    asked = (replace(PLAIN, attention="sdpa_flash"), SHARDED, replace(SHARDED, precision="bf16_pure"))
    ways = [way.train for one in asked for way in choices(LLAMA, one, 24 * 10**9) if way.train.offload != "none"]
    said = {(tool, way): told(tool, way) for tool in TOOLS for way in ways}
    assert all("offload" in words for words in said.values() if not words.startswith("refused"))
    assert any(not words.startswith("refused") for (tool, _), words in said.items() if tool == "torchtune")


def test_checkpointing_that_accelerate_cannot_switch_on_under_fsdp_is_told() -> None:
    for checkpointing in ("selective", "every_second", "full_offloaded"):
        assert f"checkpointing {checkpointing}" in in_code("accelerate", replace(SHARDED, checkpointing=checkpointing))
    assert not [words for words in in_code("accelerate", replace(SHARDED, checkpointing="full")) if "checkpointing" in words]


def test_what_the_trainer_does_otherwise_is_told_in_words() -> None:
    (words,) = differences("hf", SMALL, replace(PLAIN, optimizer="adamw8bit_bnb"))
    assert "1.47 GiB more than predicted" in words
    assert differences("hf", SMALL, replace(PLAIN, optimizer="adamw_fused")) == ()


def test_what_is_left_to_code_is_told_with_its_value() -> None:
    train = replace(PLAIN, checkpointing="full", adaptation="lora", linear="nf4_bnb", optimizer="adamw_fused", batch=2, **FUSED)
    left = in_code("accelerate", train)
    for said in ("attention sdpa_flash", "checkpointing full", "adaptation lora", "linear nf4_bnb", "optimizer adamw_fused",
                 "lora_rank 16", "weights loaded in bfloat16", "seq_len 2048", "batch 2", "accumulation 1", "clip_norm 1"):  # fmt: skip
        assert said in left
    assert in_code("torchtune", train) == ["rms_norm liger", "rope liger", "swiglu liger"]
    assert in_code("torchtune", replace(PLAIN, attention="sdpa_flash")) == ["linear_cross_entropy eager"]
    assert in_code("torchtune", replace(PLAIN, attention="sdpa_flash", linear_cross_entropy="chunked", precision="tf32")) == [
        "precision tf32"
    ]


def test_an_engine_is_told_what_its_file_decides_and_the_rest_is_left_to_code() -> None:
    engine = replace(PLAIN, sharding="zero2", world_size=2, precision="bf16_master")
    assert in_code("deepspeed", engine) == ["seq_len 2048"]
    assert in_code("deepspeed", replace(engine, checkpointing="full")) == ["checkpointing full", "seq_len 2048"]
    assert in_code("deepspeed", replace(engine, precision="fp32")) == ["weights loaded in float32", "seq_len 2048"]
    bucket = replace(engine, zero=ZeroOptions(reduce_bucket=10**6))
    assert in_code("deepspeed", bucket) == in_code("deepspeed", engine)
    assert in_code("accelerate", bucket)[-2:] == ["batch 1", "ZeRO's buckets"]


def test_a_process_for_each_gpu_is_told_where_something_is_shared_out() -> None:
    assert "tune run --nproc_per_node 4 full_finetune_distributed" in " ".join(differences("torchtune", LLAMA, SHARDED))
    lora = replace(SHARDED, adaptation="lora")
    assert "lora_finetune_distributed" in " ".join(differences("torchtune", LLAMA, lora))
    assert "torchrun --nproc-per-node 4" in " ".join(differences("hf", LLAMA, SHARDED))
    assert differences("hf", LLAMA, PLAIN) == ()


def test_what_the_tools_do_of_sharding_by_themselves_is_told_in_words() -> None:
    buckets, *_ = differences("hf", LLAMA, replace(PLAIN, sharding="ddp", world_size=2))
    assert "gradient_as_bucket_view" in buckets
    before, *_ = differences("accelerate", LLAMA, SHARDED)
    assert before.startswith("accelerate before 1.14")
    assert "fsdp2_root_unit" in before
    since, *_ = differences("accelerate", LLAMA, replace(SHARDED, sharding="fsdp2_root_unit"))
    assert since.startswith("accelerate from 1.14 on")
    assert not [words for words in differences("accelerate", SMALL, SHARDED) if "1.14" in words]  # one weight serves both ends


def test_what_torchtune_computes_otherwise_is_told_with_what_is_predicted_for_it() -> None:
    said = " ".join(differences("torchtune", LLAMA, replace(PLAIN, adaptation="lora", linear="nf4_bnb", **FUSED)))
    assert "nf4_bnb_double" in said
    assert "in chunks" in said
