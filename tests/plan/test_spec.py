"""What cannot be, or has no formulas, is refused in words; models come by name or from a config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.plan import ModelSpec, PlanError, TrainSpec, model_named, predict, predict_step, sources
from bench.plan.predict import OFFLOAD_OF_SLOT
from bench.plan.spec import DEFAULTS, MODELLED, SHARDINGS
from bench.workloads.precision import NUMERICS
from bench.workloads.train_step import WORKLOAD

CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


def test_slots_and_defaults_are_those_of_the_workload() -> None:
    of_several = {"sharding": "none", "offloading": "none"}  # which have words of their own in a plan
    assert {*MODELLED, *of_several} == set(WORKLOAD.slots)
    assert {**DEFAULTS, **of_several} == dict(WORKLOAD.defaults)
    assert set(OFFLOAD_OF_SLOT) <= set(load_catalogue().implementations("offloading"))
    assert {*SHARDINGS} <= set(load_catalogue().implementations("sharding"))
    assert set(MODELLED["precision"]) == set(NUMERICS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attention": "flash"}, "did you mean 'sdpa_flash'"),
        ({"compile": "layer"}, "no formulas for 'layer'"),
        ({"qat": "int4"}, "no formulas for 'int4'"),
        ({"linear": "nf4_bnb"}, "use it with adaptation lora"),
        ({"world_size": 8}, "8 GPUs that train together share the step"),
        ({"offload": "optimizer"}, "under zero1, zero2 and zero3"),
        ({"offload": "optimizer_ao", "sharding": "zero2", "clip_norm": 0.0}, "states of one GPU"),
        ({"offload": "optimizer_ao", "precision": "bf16_master", "clip_norm": 0.0}, "precision bf16_pure or fp32"),
        ({"optimizer": "adamw_cpu_deepspeed"}, "needs offload optimizer"),
        ({"offload": "parameters", "sharding": "zero2", "world_size": 2}, "zero3 and fsdp2 only"),
        ({"sharding": "zero3", "world_size": 2, "adaptation": "lora", "linear": "nf4_bnb"}, "stage 3 cannot part"),
        ({"sharding": "zero1", "world_size": 2, "optimizer": "adafactor"}, "flat pieces"),
        ({"sharding": "zero1", "world_size": 2, "precision": "bf16_amp"}, "autocast is not modelled"),
        ({"attention": "flex", "dropout": 0.1}, "no dropout"),
        ({"adaptation": "lora", "linear": "nf4_bnb", "precision": "bf16_amp"}, "use precision bf16_pure"),
        ({"checkpointing": "selective", "rope": "liger"}, "use rope eager"),
        ({"checkpointing": "selective", "attention": "flex"}, "not modelled; use sdpa_flash"),
        ({"sharding": "fsdp2", "world_size": 2, "optimizer": "adamw8bit_bnb"}, "adamw8bit_ao does"),
        ({"packing": "packed"}, "no formulas for 'packed'"),
        ({"batch": 0}, "batch must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        TrainSpec(**{"seq_len": 128, **changes})


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(PlanError, match=r"heads \(6\) must be a multiple of kv_heads \(4\)"):
        ModelSpec("odd", "llama", 384, 1024, 2, 6, 4, 64, 1000, False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 5, "num_key_value_heads": 5}, "must be a multiple of num_attention_heads"),
        ({"head_dim": 63}, "head_dim must be even"),
        ({"attention_bias": True}, "no formulas for attention_bias"),
        ({"mlp_bias": True}, "no formulas for attention_bias and mlp_bias"),
        ({"num_key_value_heads": 3}, "must be a multiple of kv_heads"),
    ],
)
def test_a_config_that_cannot_be_or_is_not_modelled_is_refused_and_not_guessed(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, **changes}))
    with pytest.raises(PlanError, match=words):
        model_named(str(path))


def test_a_window_that_qwen_names_and_does_not_use_is_none(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for used, window in ((False, None), (True, 4096)):
        path.write_text(json.dumps({**CONFIG, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": used}))
        assert model_named(str(path)).sliding_window == window


def test_a_family_without_formulas_is_refused() -> None:
    with pytest.raises(PlanError, match="no formulas for gemma2"):
        model_named("gemma-2-9b")


def test_a_config_json_is_read_with_the_defaults_of_hugging_face(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    model = model_named(str(tmp_path))
    assert (model.head_dim, model.kv_heads, model.tied_embeddings) == (64, 2, False)
    assert model_named(str(path)) == model


@pytest.mark.parametrize("text", ["[]", "{", '{"model_type": "llama"}', json.dumps({**CONFIG, "num_attention_heads": "many"})])
def test_what_is_no_config_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(PlanError, match=r"config\.json"):
        model_named(str(path))


def test_a_name_that_nobody_has_gets_the_nearest_one() -> None:
    with pytest.raises(PlanError, match="did you mean 'llama-3-8b'"):
        model_named("llama-3-8")


def test_a_case_of_the_workload_is_predicted_from_its_parameters_and_subject() -> None:
    model = model_named("tiny")
    params = {
        "architecture": "llama", "hidden_size": 128, "intermediate_size": 352, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 32,
        "vocab_size": 512, "tied_embeddings": False, "norm_eps": 1e-5, "rope_theta": 1e4, "max_position": 4096, "sliding_window": None,
        "rope_factor": None, "value_head_dim": 32, "seq_len": 64, "batch": 2, "accumulation": 1, "clip_norm": 1.0, "packing": "full",
        "documents": None, "dropout": 0.0, "loss_weight": 1.0, "lr": 1e-4, "data_seed": 0, "model": "tiny",
    }  # fmt: skip
    found = predict(params, dict(DEFAULTS))
    assert found == predict_step(model, TrainSpec(seq_len=64, batch=2))
    with pytest.raises(PlanError, match="no slot flavour"):
        predict(params, {**DEFAULTS, "flavour": "sweet"})


def test_a_version_that_the_formulas_were_not_read_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    train = TrainSpec(seq_len=64, rms_norm="liger", sharding="zero2", world_size=2, precision="bf16_master")
    assert sources.packages(train) == ("torch", "transformers", "liger-kernel", "deepspeed")
    monkeypatch.setattr(
        sources,
        "installed_version",
        {"torch": "2.13.0+cpu", "transformers": "4.57.1", "liger-kernel": "0.8.5", "deepspeed": "0.19.8"}.get,
    )
    (said,) = sources.strange_versions(train)
    assert "transformers >=5.17,<5.25; here 4.57.1" in said


@pytest.mark.parametrize("attention", ["sdpa_flash", "sdpa_cudnn", "flash_attn2"])
def test_attention_in_16_bits_is_refused_on_cuda_where_everything_is_fp32(attention: str) -> None:
    with pytest.raises(PlanError, match="16 bits only"):
        predict_step(model_named("tiny"), TrainSpec(seq_len=64, precision="fp32", attention=attention))
