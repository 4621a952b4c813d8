"""Settings that `--emit` writes are taken by the tools that they are for, and what a tool cannot do is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.plan import PlanError, TrainSpec, model_named
from bench.plan.emit import NVME_PATH, accelerate, deepspeed, hf, settings, torchtune
from bench.plan.spec import ZeroOptions

LLAMA = model_named("llama-3-8b")
FUSED = {
    "attention": "sdpa_flash", "rms_norm": "liger", "rope": "liger", "swiglu": "liger", "linear_cross_entropy": "liger",
    "optimizer": "adamw_fused",
}  # fmt: skip
APART = """
import json, os, sys, traceback
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM
transformers.logging.set_verbosity_error()

def each(train):
    # The libraries are imported once, and each set of settings gets a process without the state that the others leave behind.
    for folder in sys.argv[1:]:
        sys.stdout.flush()
        if os.fork() == 0:
            with open(folder + "/answer.json", "w") as answer:
                said = json.load(open(folder + "/settings.json"))
                try:
                    json.dump(train(said, folder), answer)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            os._exit(0)
        if os.wait()[1] != 0:
            sys.exit(f"{folder} failed")
"""
TRAINED = """
from transformers import Trainer, TrainingArguments

def train(said, folder):
    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
                         num_key_value_heads=2, tie_word_embeddings=False)
    model = LlamaForCausalLM._from_config(config, dtype=getattr(torch, said["from_pretrained"]["dtype"]),
                                          attn_implementation=said["from_pretrained"]["attn_implementation"])
    arguments = TrainingArguments(output_dir=folder + "/out", max_steps=3, use_cpu=True, report_to=[], save_strategy="no",
                                  logging_steps=1, disable_tqdm=True, **said["TrainingArguments"])
    rows = [{"input_ids": torch.arange(16) % 128, "labels": torch.arange(16) % 128} for _ in range(64)]
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    done = trainer.train()
    return {"steps": done.global_step, "loss": done.training_loss, "optimizer": type(trainer.optimizer.optimizer).__name__,
            "checkpointed": [bool(layer.gradient_checkpointing) for layer in model.model.layers]}

each(train)
"""
ENGINE = """
import deepspeed
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
import transformers.training_args
from transformers import Trainer, TrainingArguments
# The Trainer asks for a GPU before it trains in bf16 with DeepSpeed; DeepSpeed itself does so on a CPU.
transformers.training_args.is_torch_bf16_gpu_available = lambda: True

def train(said, folder):
    return trained(said, folder) if "TrainingArguments" in said else driven(said)

def trained(said, folder):
    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, tie_word_embeddings=False)
    arguments = TrainingArguments(output_dir=folder + "/out", max_steps=3, report_to=[], save_strategy="no", logging_steps=1,
                                  disable_tqdm=True, **said["TrainingArguments"])
    model = LlamaForCausalLM._from_config(config, dtype=getattr(torch, said["from_pretrained"]["dtype"]),
                                          attn_implementation=said["from_pretrained"]["attn_implementation"])
    rows = [{"input_ids": torch.arange(16) % 128, "labels": torch.arange(16) % 128} for _ in range(64)]
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    done = trainer.train()
    engine = trainer.model_wrapped
    return {"steps": done.global_step, "losses": [done.training_loss], "stage": engine.zero_optimization_stage(),
            "dtype": str(next(engine.module.parameters()).dtype)}

def driven(said):
    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, tie_word_embeddings=False)
    model = LlamaForCausalLM(config)
    deepspeed.init_distributed("gloo", rank=0, world_size=1, auto_mpi_discovery=False)
    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=said, model_parameters=model.parameters())
    tokens = torch.arange(16)[None] % 128
    losses = []
    for _ in range(3 * said["gradient_accumulation_steps"]):
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        losses.append(float(loss))
    return {"steps": engine.global_steps, "losses": losses, "stage": engine.zero_optimization_stage(),
            "dtype": str(next(engine.module.parameters()).dtype)}

each(train)
"""


def run(script: str, settings: dict[str, dict[str, Any]], folder: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """What each of the settings made of three steps, by name."""
    for name, said in settings.items():
        (folder / name).mkdir()
        (folder / name / "settings.json").write_text(json.dumps(said))
    done = subprocess.run(
        [sys.executable, "-c", APART + script, *(str(folder / name) for name in settings)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: json.loads((folder / name / "answer.json").read_text()) for name in settings}


TRAINER: dict[str, dict[str, Any]] = {
    "full": {"checkpointing": "full", "optimizer": "adamw_fused", "accumulation": 2},
    "every second": {"checkpointing": "every_second", "precision": "bf16_amp", "attention": "sdpa_flash"},
    "sgd": {"optimizer": "sgd", "precision": "fp32", "batch": 2},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    said = {name: hf(LLAMA, TrainSpec(seq_len=16, **changes)) for name, changes in TRAINER.items()}
    return run(TRAINED, said, tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    environment = {"DS_ACCELERATOR": "cpu", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "LOCAL_RANK": "0", "RANK": "0",
                   "WORLD_SIZE": "1"}  # fmt: skip
    shared: dict[str, Any] = {
        "seq_len": 16,
        "world_size": 2,
        "precision": "bf16_master",
        "accumulation": 2,
        "zero": ZeroOptions(reduce_bucket=100_000),
    }
    trains = {name: TrainSpec(sharding=name, **shared) for name in ("zero1", "zero2", "zero3")}
    said = {name: deepspeed(train) for name, train in trains.items()}
    if find_spec("accelerate") is not None:
        said |= {f"{name} by the Trainer": hf(LLAMA, train) for name, train in trains.items()}
    return run(ENGINE, said, tmp_path_factory.mktemp("engines"), **environment)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("accelerate") is None, reason="transformers' Trainer needs accelerate, which is not installed")
@pytest.mark.parametrize(
    ("name", "optimizer", "checkpointed"),
    [("full", "AdamW", [True] * 4), ("every second", "AdamW", [True, False, True, False]), ("sgd", "SGD", [False] * 4)],
)
def test_the_trainer_takes_the_settings_and_trains_three_steps_with_them(
    name: str, optimizer: str, checkpointed: list[bool], trained: dict[str, dict[str, Any]]
) -> None:
    found = trained[name]
    assert found["steps"] == 3
    assert found["optimizer"] == optimizer
    assert found["checkpointed"] == checkpointed
    assert 0 < found["loss"] < 10


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="deepspeed is not installed")
@pytest.mark.parametrize("driver", ["", " by the Trainer"])
@pytest.mark.parametrize("sharding", ["zero1", "zero2", "zero3"])
def test_deepspeed_takes_the_settings_and_trains_three_steps_with_them(
    sharding: str, driver: str, engines: dict[str, dict[str, Any]]
) -> None:
    if driver and find_spec("accelerate") is None:
        pytest.skip("transformers' Trainer needs accelerate, which is not installed")
    found = engines[sharding + driver]
    assert (found["steps"], found["stage"], found["dtype"]) == (3, int(sharding[-1]), "torch.bfloat16")
    assert all(0 < loss < 10 for loss in found["losses"])


def test_fused_layers_and_quantized_weights_are_told_by_the_names_of_transformers() -> None:
    said = hf(LLAMA, TrainSpec(seq_len=4096, adaptation="lora", linear="nf4_bnb_double", **FUSED))
    arguments = said["TrainingArguments"]
    assert arguments["liger_kernel_config"] == {
        "rms_norm": True, "rope": True, "swiglu": True, "fused_linear_cross_entropy": True, "cross_entropy": False,
    }  # fmt: skip
    assert said["from_pretrained"]["quantization_config"]["bnb_4bit_quant_type"] == "nf4"
    assert said["from_pretrained"]["quantization_config"]["bnb_4bit_use_double_quant"] is True
    assert said["LoraConfig"]["r"] == 16


def test_what_torchtune_shards_and_offloads_stands_in_the_fields_of_its_distributed_recipes() -> None:
    several = TrainSpec(seq_len=128, sharding="fsdp2", world_size=4, offload="parameters")
    assert torchtune(LLAMA, several)["fsdp_cpu_offload"] is True
    assert torchtune(LLAMA, several)["fsdp_reshard_after_forward"] is True
    assert torchtune(LLAMA, several)["custom_sharded_layers"] == ["tok_embeddings", "output"]
    kept = torchtune(LLAMA, replace(several, sharding="fsdp2_kept", offload="none"))
    assert (kept["fsdp_cpu_offload"], kept["fsdp_reshard_after_forward"]) == (False, False)
    assert "custom_sharded_layers" not in torchtune(LLAMA, replace(several, sharding="fsdp2_root_unit"))
    assert not [field for field in torchtune(LLAMA, TrainSpec(seq_len=128)) if field.startswith(("fsdp", "custom"))]


def test_a_norm_that_is_not_clipped_is_not_clipped_to_zero_by_torchtune() -> None:
    assert torchtune(LLAMA, TrainSpec(seq_len=128, clip_norm=0))["clip_grad_norm"] is None
    assert torchtune(LLAMA, TrainSpec(seq_len=128))["clip_grad_norm"] == 1.0


def test_dropout_and_the_kept_form_of_sharded_4_bit_weights_are_told_to_transformers() -> None:
    assert hf(LLAMA, TrainSpec(seq_len=128, dropout=0.1))["from_pretrained"]["attention_dropout"] == 0.1
    sharded = TrainSpec(seq_len=128, adaptation="lora", linear="nf4_bnb", sharding="fsdp2", world_size=4)
    for train, storage in ((sharded, "bfloat16"), (replace(sharded, sharding="none", world_size=1), None)):
        assert hf(LLAMA, train)["from_pretrained"]["quantization_config"].get("bnb_4bit_quant_storage") == storage


def test_offload_and_buckets_stand_in_deepspeeds_section_of_zero() -> None:
    train = TrainSpec(
        seq_len=128, sharding="zero3", world_size=8, precision="bf16_master", offload="parameters",
        zero=ZeroOptions(reduce_bucket=10**7, persistence_threshold=0, overlap_comm="off"),
    )  # fmt: skip
    zero = deepspeed(train)["zero_optimization"]
    assert zero["stage"] == 3
    assert zero["reduce_bucket_size"] == 10**7
    assert (zero["stage3_param_persistence_threshold"], zero["overlap_comm"]) == (0, False)
    assert "stage3_prefetch_bucket_size" not in zero
    assert zero["offload_optimizer"]["device"] == zero["offload_param"]["device"] == "cpu"
    assert hf(LLAMA, train)["TrainingArguments"]["deepspeed"]["zero_optimization"] == zero


@pytest.mark.parametrize("tool", ["accelerate", "torchtune"])
def test_yaml_of_a_tool_is_what_its_function_says(tool: str) -> None:
    train = TrainSpec(seq_len=128, checkpointing="full")
    said = accelerate(train) if tool == "accelerate" else torchtune(LLAMA, train)
    assert yaml.safe_load(settings(tool, LLAMA, train)) == said


def test_fsdp_is_told_to_accelerate_and_to_the_trainer() -> None:
    train = TrainSpec(seq_len=128, sharding="fsdp2", world_size=8, precision="bf16_master", attention="sdpa_flash")
    assert accelerate(train)["fsdp_config"]["fsdp_version"] == 2
    arguments = hf(LLAMA, train)["TrainingArguments"]
    assert arguments["fsdp_config"]["transformer_layer_cls_to_wrap"] == ["LlamaDecoderLayer"]
    assert arguments["bf16"] is True


@pytest.mark.parametrize(
    ("tool", "changes", "words"),
    [
        ("keras", {}, "there are hf"),
        ("hf", {"checkpointing": "selective"}, "no setting for checkpointing selective"),
        ("hf", {"attention": "sdpa_math"}, "no setting for attention sdpa_math"),
        ("hf", {"linear_cross_entropy": "chunked"}, "no setting for linear_cross_entropy chunked"),
        ("hf", {"precision": "bf16_master"}, "no setting for precision bf16_master on one GPU"),
        ("deepspeed", {}, "zero1, zero2 and zero3"),
        ("torchtune", {"precision": "bf16_amp"}, "no setting for precision bf16_amp"),
        ("accelerate", {"precision": "fp16_pure"}, "no setting for precision fp16_pure"),
        ("accelerate", {"precision": "bf16_master"}, "no setting for precision bf16_master on one GPU"),
        ("accelerate", {"precision": "bf16_master", "sharding": "ddp", "world_size": 2}, "bf16_master under ddp"),
        ("hf", {"precision": "bf16_master", "sharding": "ddp", "world_size": 2}, "bf16_master under ddp"),
        ("deepspeed", {"sharding": "zero2", "world_size": 2}, "under DeepSpeed's engine weights have an fp32 copy"),
        ("torchtune", {"sharding": "ddp", "world_size": 2}, "no setting for sharding ddp"),
        ("torchtune", {"sharding": "fsdp2", "offload": "parameters"}, "two processes or more"),
        ("torchtune", {"adaptation": "lora", "linear": "fp4_bnb"}, "no setting for linear fp4_bnb"),
    ],
)
def test_what_a_tool_cannot_do_is_refused(tool: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        settings(tool, LLAMA, TrainSpec(seq_len=128, **changes))


def test_states_on_disk_have_a_folder_to_be_set_and_are_for_stage_3_alone() -> None:
    train = TrainSpec(
        seq_len=64, sharding="zero3", precision="bf16_master", offload="optimizer_nvme", optimizer="adamw_cpu_deepspeed"
    )
    section = deepspeed(train)["zero_optimization"]["offload_optimizer"]
    assert section == {"device": "nvme", "nvme_path": NVME_PATH, "pin_memory": True}
    told = accelerate(train)["deepspeed_config"]
    assert (told["offload_optimizer_device"], told["offload_optimizer_nvme_path"]) == ("nvme", NVME_PATH)
    with pytest.raises(PlanError, match="zero3 only"):
        replace(train, sharding="zero2")
