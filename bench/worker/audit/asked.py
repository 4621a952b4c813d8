"""What a script asked for: fields of trainers' arguments and of model configs that change memory or speed, and nothing else of them."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from bench.audited import Plain
from bench.worker.audit.scene import Scene, package_of

_ARGUMENTS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "auto_find_batch_size", "max_grad_norm", "optim", "optim_args",
    "bf16", "fp16", "tf32", "gradient_checkpointing", "torch_compile", "torch_compile_backend", "torch_compile_mode",
    "use_liger_kernel", "use_cache", "torch_empty_cache_steps", "group_by_length", "train_sampling_strategy",
    "dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers", "dataloader_prefetch_factor",
    "ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_static_graph", "neftune_noise_alpha",
    "packing", "padding_free", "max_length", "max_seq_length", "use_liger_loss", "activation_offloading", "loss_type",
)  # fmt: skip
_CONFIG = (
    "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "max_position_embeddings", "tie_word_embeddings", "sliding_window", "use_sliding_window", "attention_bias",
    "attention_dropout", "hidden_act", "num_experts", "num_local_experts", "num_experts_per_tok", "use_cache", "output_attentions",
    "output_hidden_states", "pad_token_id", "n_embd", "n_layer", "n_head", "n_positions",
)  # fmt: skip
_VARIABLES = (
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG",
    "TOKENIZERS_PARALLELISM", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_DEEPSPEED",
    "ACCELERATE_USE_FSDP", "ACCELERATE_DYNAMO_BACKEND", "DS_ACCELERATOR", "TRITON_INTERPRET",
)  # fmt: skip
_PACKAGES = (
    "torch", "transformers", "accelerate", "deepspeed", "trl", "peft", "bitsandbytes", "torchao", "liger_kernel", "flash_attn", "triton",
    "xformers", "apex", "unsloth", "lightning", "datasets", "torchtune", "torchtitan", "numpy",
)  # fmt: skip
MOST_FIELDS = 40
LONGEST_FILE_BYTES = 1 << 20


def plain(values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, Plain]:
    """What of it is text, a number, a truth value or nothing; enumerations by their value, dtypes by their name."""
    found: dict[str, Plain] = {}
    for name, value in values.items() if isinstance(values, Mapping) else values:
        value = getattr(value, "value", value) if type(value).__name__.endswith(("Type", "Strategy", "Names")) else value
        if value is None or isinstance(value, bool | int | str):
            found[str(name)] = value
        elif isinstance(value, float):
            found[str(name)] = value if abs(value) < float("inf") else str(value)
        elif type(value).__name__ == "dtype":
            found[str(name)] = str(value).removeprefix("torch.")
        elif isinstance(value, tuple) and all(isinstance(part, int | float) for part in value):
            found[str(name)] = ", ".join(map(str, value))
    return found


def arguments(scene: Scene | None) -> dict[str, Plain]:
    """What the arguments of the last Trainer ask for, by their own names; nothing without one."""
    if scene is None or not scene.trainers:
        return {}
    given = scene.trainers[-1].args
    return plain((name, getattr(given, name)) for name in _ARGUMENTS if hasattr(given, name))


def deepspeed_given(scene: Scene) -> dict[str, Any]:
    """DeepSpeed's configuration as it was handed in, before anything was filled in; empty where that is not known."""
    given: Any = getattr(scene.trainers[-1].args, "deepspeed", None) if scene.trainers else None
    given = given or os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE") or getattr(scene.engine, "config", None)
    if isinstance(given, str) and Path(given).is_file() and Path(given).stat().st_size <= LONGEST_FILE_BYTES:
        given = json.loads(Path(given).read_text())
    return json.loads(json.dumps(given, default=str)) if isinstance(given, dict) else {}


def config_of(model: nn.Module) -> dict[str, Any]:
    """Sizes and switches of a transformers config, or the plain fields of a config that is a dataclass."""
    outer = next((module for module in model.modules() if getattr(module, "config", None) is not None), None)
    config: Any = getattr(outer, "config", None)
    if config is None:
        return {}
    if dataclasses.is_dataclass(config) and not hasattr(config, "model_type"):
        return dict(list(plain(vars(config)).items())[:MOST_FIELDS])
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    found: dict[str, Any] = plain((name, getattr(inner, name)) for name in _CONFIG if getattr(inner, name, None) is not None)
    found["attn_implementation"] = getattr(inner, "_attn_implementation", None)
    found |= plain([("dtype", getattr(inner, "dtype", None))])
    quantization = getattr(config, "quantization_config", None)
    if quantization is not None:
        fields = quantization if isinstance(quantization, dict) else vars(quantization)
        found["quantization"] = plain((name.removeprefix("_"), value) for name, value in fields.items())
    return found


def frameworks(scene: Scene | None) -> tuple[str, ...]:
    """Whose training loop it is, and what stands between."""
    found = []
    for trainer in scene.trainers if scene is not None else ():
        kind = next((kind for kind in type(trainer).__mro__ if package_of(kind.__module__) in ("trl", "transformers")), None)
        if kind is not None:
            found.append(f"{package_of(kind.__module__)}.{kind.__name__}")
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    if state is not None and state._shared_state:
        found.append("accelerate")
    if scene is not None and scene.engine is not None:
        found.append("deepspeed")
    found += [name for name in ("lightning", "pytorch_lightning", "torchtune", "torchtitan", "unsloth") if name in sys.modules]
    return tuple(dict.fromkeys(found))


def launched_by() -> tuple[str, ...]:
    """As the environment tells it."""
    tells = {"torchrun": "TORCHELASTIC_RUN_ID", "accelerate": "ACCELERATE_MIXED_PRECISION", "deepspeed": "CROSS_RANK"}
    return tuple(name for name, variable in tells.items() if variable in os.environ)


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def versions() -> dict[str, str]:
    """Of Python and of the packages that are loaded."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        module = sys.modules.get(name)
        version = getattr(module, "__version__", None)
        if module is not None and not isinstance(version, str):
            from importlib.metadata import PackageNotFoundError
            from importlib.metadata import version as installed

            try:
                version = installed(name.replace("_", "-"))
            except PackageNotFoundError:
                continue
        if isinstance(version, str):
            found[name] = version
    return found
