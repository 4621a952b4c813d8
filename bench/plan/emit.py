"""Settings of a way to train for the tools that people train with: transformers' Trainer, DeepSpeed, accelerate, torchtune.

What a tool cannot do is refused in words: settings that train otherwise than the row says would be worse than none. What is only not said
by settings is told beside them (`unsaid.py`). Kernels of SDPA are chosen by torch itself under these tools, so `sdpa` stands for any of its
fused ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from bench.plan.predict import peak_bytes
from bench.plan.spec import PROJECTIONS, ZERO_STAGES, ModelSpec, PlanError, TrainSpec, ZeroOptions
from bench.plan.unsaid import loaded_dtype

HF_ATTENTION: Mapping[str, str] = {
    "eager": "eager",
    "sdpa_flash": "sdpa",
    "sdpa_efficient": "sdpa",
    "sdpa_cudnn": "sdpa",
    "flash_attn2": "flash_attention_2",
    "flex": "flex_attention",
}
HF_OPTIMIZERS: Mapping[str, str] = {
    "adamw_foreach": "adamw_torch",
    "adamw_fused": "adamw_torch_fused",
    "adamw8bit_bnb": "adamw_bnb_8bit",
    "paged_adamw8bit_bnb": "paged_adamw_8bit",
    "paged_adamw32bit_bnb": "paged_adamw_32bit",
    "lion8bit_bnb": "lion_8bit",
    "adamw8bit_ao": "adamw_torch_8bit",
    "adamw4bit_ao": "adamw_torch_4bit",
    "sgd": "sgd",
}
HF_CHECKPOINTS: Mapping[str, Mapping[str, Any]] = {
    "full": {"use_reentrant": False},
    "every_second": {"use_reentrant": False, "every_n_layers": 2},
    "full_offloaded": {"use_reentrant": False, "offload": True},
}
TUNE_OPTIMIZERS: Mapping[str, Mapping[str, Any]] = {
    "adamw_foreach": {"_component_": "torch.optim.AdamW", "foreach": True},
    "adamw_fused": {"_component_": "torch.optim.AdamW", "fused": True},
    "adamw8bit_bnb": {"_component_": "bitsandbytes.optim.AdamW8bit"},
    "paged_adamw8bit_bnb": {"_component_": "bitsandbytes.optim.PagedAdamW8bit"},
    "adamw8bit_ao": {"_component_": "torchao.optim.AdamW8bit"},
    "sgd": {"_component_": "torch.optim.SGD", "momentum": 0.9},
}
TUNE_FROZEN: Mapping[str, bool] = {"plain": False, "nf4_bnb": True, "nf4_bnb_double": True}
UNSHARDED = ("none", "ddp")
"""Where neither library keeps fp32 copies beside 16-bit weights."""
ZERO_SETTINGS: Mapping[str, str] = {
    "reduce_bucket": "reduce_bucket_size",
    "prefetch_bucket": "stage3_prefetch_bucket_size",
    "persistence_threshold": "stage3_param_persistence_threshold",
}
"""Field of `ZeroOptions` to DeepSpeed's name for it."""
FUSED_SLOTS = ("rms_norm", "rope", "swiglu")
NVME_PATH = "/local_nvme"
"""Where DeepSpeed puts states on disk, to be set to a folder of one's own."""


def settings(tool: str, model: ModelSpec, train: TrainSpec) -> str:
    """Text in the tool's format: JSON for hf and deepspeed, YAML for accelerate and torchtune. Raises PlanError."""
    emitters: Mapping[str, Callable[[ModelSpec, TrainSpec], str]] = {
        "hf": lambda model, train: json.dumps(hf(model, train), indent=2),
        "deepspeed": lambda model, train: json.dumps(deepspeed(train), indent=2),
        "accelerate": lambda model, train: _yaml(accelerate(train)),
        "torchtune": lambda model, train: _yaml(torchtune(model, train)),
    }
    if tool not in emitters:
        raise PlanError(f"no settings for {tool!r}; there are {', '.join(emitters)}")
    if train.offload == "optimizer_ao":
        raise PlanError(f"{tool} has no setting for torchao's CPUOffloadOptimizer: it is put around the optimizer in code")
    peak_bytes(model, train)  # raises for what the library behind the sharding does not train
    return emitters[tool](model, train)


def _yaml(data: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(dict(data), sort_keys=False)
    return text.rstrip("\n")


def _taken(tool: str, slot: str, value: str, table: Mapping[str, Any]) -> Any:
    if value not in table:
        raise PlanError(f"{tool} has no setting for {slot} {value}; it has them for {', '.join(table)}")
    return table[value]


def hf(model: ModelSpec, train: TrainSpec) -> dict[str, Any]:
    """`TrainingArguments`, what `from_pretrained` gets, and for adapters the arguments of PEFT's `LoraConfig`."""
    arguments: dict[str, Any] = {
        "per_device_train_batch_size": train.batch,
        "gradient_accumulation_steps": train.accumulation,
        "max_grad_norm": train.clip_norm,
        **_hf_precision(train),
        **_liger(train),
        "gradient_checkpointing": train.checkpointing != "none",
    }
    if train.sharding.startswith("zero"):
        # The Trainer refuses a rate that is not its own, whatever that is.
        arguments["deepspeed"] = deepspeed(train, rate="auto")
    else:
        arguments["optim"] = _taken("the Trainer", "optimizer", train.optimizer, HF_OPTIMIZERS)
    if train.checkpointing != "none":
        options = _taken("the Trainer", "checkpointing", train.checkpointing, HF_CHECKPOINTS)
        arguments["gradient_checkpointing_kwargs"] = dict(options)
    if train.sharding.startswith("fsdp2"):
        layer = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[model.architecture]
        arguments["fsdp"] = "full_shard auto_wrap" + (" offload" if train.offload == "parameters" else "")
        arguments["fsdp_config"] = {
            "fsdp_version": 2,
            "transformer_layer_cls_to_wrap": [f"{layer}DecoderLayer"],
            "reshard_after_forward": train.sharding != "fsdp2_kept",
        }
    loaded: dict[str, Any] = {
        "dtype": loaded_dtype(train),
        "attn_implementation": _taken("transformers", "attention", train.attention, HF_ATTENTION),
        **({"attention_dropout": train.dropout} if train.dropout else {}),
    }
    found: dict[str, Any] = {"TrainingArguments": arguments, "from_pretrained": loaded, "max_length": train.seq_len}
    if train.adaptation == "lora":
        found["LoraConfig"] = {"r": train.lora_rank, "lora_alpha": 2 * train.lora_rank, "target_modules": list(PROJECTIONS)}
    if train.linear != "plain":
        loaded["quantization_config"] = _quantized(train)
    return found


def _hf_precision(train: TrainSpec) -> dict[str, Any]:
    if train.precision in ("bf16_pure", "fp32"):
        return {"bf16": False, "fp16": False, **({"tf32": False} if train.precision == "fp32" else {})}
    if train.precision == "tf32":
        return {"bf16": False, "fp16": False, "tf32": True}
    if train.precision in ("bf16_amp", "fp16_amp_dynamic"):
        return {"bf16": train.precision == "bf16_amp", "fp16": train.precision != "bf16_amp"}
    if train.precision in ("bf16_master", "fp16_master") and train.sharding not in UNSHARDED:
        return {"bf16": train.precision == "bf16_master", "fp16": train.precision == "fp16_master"}
    raise PlanError(_no_master("the Trainer", train))


def _no_master(tool: str, train: TrainSpec) -> str:
    where = "on one GPU" if train.sharding == "none" else f"under {train.sharding}"
    return f"{tool} has no setting for precision {train.precision} {where}; bf16_amp keeps fp32 weights too"


def _liger(train: TrainSpec) -> dict[str, Any]:
    wanted = {slot: getattr(train, slot) == "liger" for slot in FUSED_SLOTS}
    for slot in (*FUSED_SLOTS, "linear_cross_entropy"):
        _taken("the Trainer", slot, getattr(train, slot), {"eager": False, "liger": True})
    wanted["fused_linear_cross_entropy"] = train.linear_cross_entropy == "liger"
    if not any(wanted.values()):
        return {}
    return {"use_liger_kernel": True, "liger_kernel_config": {**wanted, "cross_entropy": False}}


def _quantized(train: TrainSpec) -> dict[str, Any]:
    found: dict[str, Any] = {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": train.linear[:3],
        "bnb_4bit_use_double_quant": train.linear.endswith("double"),
        "bnb_4bit_compute_dtype": "bfloat16",
    }
    if train.sharding.startswith("fsdp2"):
        # Bytes that are kept as whole numbers are left whole on each GPU.
        found["bnb_4bit_quant_storage"] = loaded_dtype(train)
    return found


def deepspeed(train: TrainSpec, *, rate: float | str = 1e-4) -> dict[str, Any]:
    """A DeepSpeed configuration; batch and clipping are told, so that it serves without the Trainer too."""
    if train.sharding not in ZERO_STAGES:
        raise PlanError(f"DeepSpeed's settings are for sharding zero1, zero2 and zero3, not for {train.sharding}")
    stage = int(train.sharding[-1])
    zero: dict[str, Any] = {"stage": stage}
    usual = ZeroOptions()
    for field, setting in ZERO_SETTINGS.items():
        if getattr(train.zero, field) != getattr(usual, field) and (stage == 3 or not setting.startswith("stage3")):
            zero[setting] = getattr(train.zero, field)
    if train.zero.overlap_comm != usual.overlap_comm:
        zero["overlap_comm"] = train.zero.overlap_comm == "on"
    if train.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if train.offload == "optimizer_nvme":
        zero["offload_optimizer"] = {"device": "nvme", "nvme_path": NVME_PATH, "pin_memory": True}
    if train.offload == "parameters":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    known = {"adamw_foreach": True, "adamw_fused": False, "adamw_cpu_deepspeed": False}
    torchs = _taken("this configuration of DeepSpeed", "optimizer", train.optimizer, known)
    torchs = torchs and train.offload == "none"  # offloaded states are updated by DeepSpeed's own kernel for CPUs
    return {
        "train_micro_batch_size_per_gpu": train.batch,
        "gradient_accumulation_steps": train.accumulation,
        "gradient_clipping": train.clip_norm,
        "bf16": {"enabled": train.precision == "bf16_master"},
        **({"fp16": {"enabled": True}} if train.precision == "fp16_master" else {}),
        "optimizer": {"type": "AdamW", "params": {"lr": rate, **({"torch_adam": True} if torchs else {})}},
        "zero_optimization": zero,
    }


def accelerate(train: TrainSpec) -> dict[str, Any]:
    """A file for `accelerate launch --config_file`."""
    mixed = {
        "bf16_amp": "bf16",
        "fp16_amp_dynamic": "fp16",
        "bf16_master": "bf16",
        "fp16_master": "fp16",
        "bf16_pure": "no",
        "fp32": "no",
        "tf32": "no",
    }
    if train.master_bytes and train.sharding in UNSHARDED:
        raise PlanError(_no_master("accelerate", train))
    found: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "NO" if train.world_size == 1 else "MULTI_GPU",
        "mixed_precision": _taken("accelerate", "precision", train.precision, mixed),
        "num_machines": 1,
        "num_processes": train.world_size,
    }
    if train.sharding.startswith("fsdp2"):
        found["distributed_type"] = "FSDP"
        found["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": train.sharding != "fsdp2_kept",
            "fsdp_offload_params": train.offload == "parameters",
            "fsdp_activation_checkpointing": train.checkpointing == "full",
        }
    elif train.sharding.startswith("zero"):
        _taken("accelerate", "sharding", train.sharding, dict.fromkeys(("ddp", "fsdp2", "fsdp2_kept", *ZERO_STAGES)))
        found["distributed_type"] = "DEEPSPEED"
        where = {"none": "none", "optimizer_nvme": "nvme"}.get(train.offload, "cpu")
        found["deepspeed_config"] = {
            "zero_stage": int(train.sharding[-1]),
            "gradient_accumulation_steps": train.accumulation,
            "gradient_clipping": train.clip_norm,
            "offload_optimizer_device": where,
            **({"offload_optimizer_nvme_path": NVME_PATH} if where == "nvme" else {}),
            "offload_param_device": "cpu" if train.offload == "parameters" else "none",
        }
    return found


def torchtune(model: ModelSpec, train: TrainSpec) -> dict[str, Any]:
    """The fields of a recipe's configuration that this row decides; the recipe itself names model and data."""
    if train.sharding.startswith("zero") or train.sharding == "ddp":
        raise PlanError(f"torchtune shards with FSDP2, and has no setting for sharding {train.sharding}")
    if train.sharding != "none" and train.world_size == 1:
        raise PlanError("torchtune shards and offloads only where two processes or more train together (--world-size 2)")
    dtypes = {"bf16_pure": "bf16", "fp32": "fp32", "tf32": "fp32"}
    checkpoints = {"none": (False, False), "full": (True, False), "full_offloaded": (True, True)}
    checkpointed, offloaded = _taken("torchtune", "checkpointing", train.checkpointing, checkpoints)
    found: dict[str, Any] = {
        "tokenizer": {"max_seq_len": train.seq_len},
        "batch_size": train.batch,
        "gradient_accumulation_steps": train.accumulation,
        "clip_grad_norm": train.clip_norm or None,  # to a norm of 0 it would clip
        "dtype": _taken("torchtune", "precision", train.precision, dtypes),
        "enable_activation_checkpointing": checkpointed,
        "enable_activation_offloading": offloaded,
        "optimizer": dict(_taken("torchtune", "optimizer", train.optimizer, TUNE_OPTIMIZERS)),
        "compile": False,
    }
    if train.sharding != "none":
        found["fsdp_cpu_offload"] = train.offload == "parameters"
        found["fsdp_reshard_after_forward"] = train.sharding != "fsdp2_kept"
        if train.sharding != "fsdp2_root_unit" and not model.tied_embeddings:
            found["custom_sharded_layers"] = ["tok_embeddings", "output"]
    if train.linear_cross_entropy != "eager":
        found["loss"] = {"_component_": "torchtune.modules.loss.LinearCrossEntropyLoss"}
    if train.adaptation == "lora":
        found["model"] = {
            "lora_attn_modules": [*PROJECTIONS[:3], "output_proj"],
            "apply_lora_to_mlp": True,
            "lora_rank": train.lora_rank,
            "lora_alpha": 2 * train.lora_rank,
            "quantize_base": _taken("torchtune", "linear", train.linear, TUNE_FROZEN),
        }
    return found
