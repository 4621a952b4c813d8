"""What is planned: a decoder's sizes and how it is trained, in the words of the workload `train_step`; what cannot be is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bench.catalogue.names import nearest
from bench.catalogue.shapes import ModelShape, read_models
from bench.errors import BenchError
from bench.workloads.precision import NUMERICS, Numerics

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
"""Decoders whose layers are described here. Others have parts of their own."""
CONFIG_FIELDS: Mapping[str, str] = {
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "vocab_size": "vocab_size",
}
"""Field of a shape to the key of a config.json, where it must stand there."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The products of a layer, which have the adapters."""
ZERO_STAGES = ("zero1", "zero2", "zero3")
"""Those of DeepSpeed that share something out."""
SHARDINGS = ("none", "ddp", "zero0", *ZERO_STAGES, "fsdp2", "fsdp2_root_unit", "fsdp2_kept")
OFFLOADS = ("none", "optimizer", "optimizer_ao", "optimizer_nvme", "parameters")
DTYPE_BYTES: Mapping[str, int] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
MODELLED: Mapping[str, tuple[str, ...]] = {
    "attention": ("eager", "sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn", "flash_attn2", "flash_attn4", "flex"),
    "rms_norm": ("eager", "liger", "torch_native"),
    "rope": ("eager", "liger"),
    "swiglu": ("eager", "liger"),
    "linear_cross_entropy": ("eager", "chunked", "liger"),
    "linear": ("plain", "nf4_bnb", "nf4_bnb_double", "fp4_bnb", "fp4_bnb_double"),
    "optimizer": (
        "adamw_foreach", "adamw_forloop", "adamw_fused", "adamw8bit_bnb", "paged_adamw32bit_bnb", "paged_adamw8bit_bnb",
        "lion8bit_bnb", "adamw8bit_ao", "adamw4bit_ao", "adamw_fp8_ao", "adafactor", "sgd", "adamw_cpu_deepspeed",
    ),
    "compile": ("none",),
    "checkpointing": ("none", "full", "every_second", "selective", "full_offloaded"),
    "precision": tuple(NUMERICS),
    "adaptation": ("full", "lora"),
    "qat": ("none",),
}  # fmt: skip
"""Slot of `train_step` to the implementations that have formulas here."""
DEFAULTS: Mapping[str, str] = {
    "attention": "eager",
    "rms_norm": "eager",
    "rope": "eager",
    "swiglu": "eager",
    "linear_cross_entropy": "eager",
    "linear": "plain",
    "optimizer": "adamw_foreach",
    "compile": "none",
    "checkpointing": "none",
    "precision": "bf16_pure",
    "adaptation": "full",
    "qat": "none",
}
"""As the workload has them: the plainest code. transformers by itself takes SDPA, and its Trainer the fused AdamW."""


SIXTEEN_BITS = ("sdpa_flash", "sdpa_cudnn", "flash_attn2", "flash_attn4")
"""Attention that takes 16-bit numbers only."""


class PlanError(BenchError):
    """A configuration that cannot exist, or that the memory model has no formulas for; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder of one of `FAMILIES`. Raises PlanError for sizes that do not fit together."""

    name: str
    architecture: str
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    tied_embeddings: bool
    sliding_window: int | None = None

    def __post_init__(self) -> None:
        if self.architecture not in FAMILIES:
            raise PlanError(f"no formulas for {self.architecture} ({self.name}); modelled are {', '.join(FAMILIES)}")
        for field in ("hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "head_dim", "vocab_size"):
            if getattr(self, field) < 1:
                raise PlanError(f"{self.name}: {field} must be at least 1")
        if self.heads % self.kv_heads:
            raise PlanError(f"{self.name}: heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")

    @property
    def biases(self) -> bool:
        """Whether the projections of queries, keys and values have them."""
        return self.architecture == "qwen2"

    @property
    def head_norms(self) -> bool:
        """Whether queries and keys are normalised per head."""
        return self.architecture == "qwen3"


@dataclass(frozen=True, slots=True)
class ZeroOptions:
    """DeepSpeed's settings of ZeRO that memory depends on, as it has them by itself. Raises PlanError for what is not modelled."""

    reduce_bucket: int = 500_000_000
    """Elements, `reduce_bucket_size`: made whole, however small the model is."""
    prefetch_bucket: int = 50_000_000
    """Elements, `stage3_prefetch_bucket_size`."""
    persistence_threshold: int = 100_000
    """Elements up to which stage 3 divides no weight, `stage3_param_persistence_threshold`."""
    overlap_comm: str = "default"
    contiguous_gradients: bool = True

    def __post_init__(self) -> None:
        if self.reduce_bucket < 1 or self.prefetch_bucket < 0 or self.persistence_threshold < 0:
            raise PlanError("buckets of ZeRO are counted in elements: the reduce bucket from 1, the others from 0")
        if not self.contiguous_gradients:
            raise PlanError("the memory model has no formulas for ZeRO without contiguous_gradients, which is DeepSpeed's default")


@dataclass(frozen=True, slots=True)
class TrainSpec:
    """One step of training on one of `world_size` GPUs. Raises PlanError for what cannot be, or has no formulas."""

    seq_len: int
    batch: int = 1
    accumulation: int = 1
    clip_norm: float = 1.0
    dropout: float = 0.0
    packing: str = "full"
    attention: str = DEFAULTS["attention"]
    rms_norm: str = DEFAULTS["rms_norm"]
    rope: str = DEFAULTS["rope"]
    swiglu: str = DEFAULTS["swiglu"]
    linear_cross_entropy: str = DEFAULTS["linear_cross_entropy"]
    linear: str = DEFAULTS["linear"]
    optimizer: str = DEFAULTS["optimizer"]
    compile: str = DEFAULTS["compile"]
    checkpointing: str = DEFAULTS["checkpointing"]
    precision: str = DEFAULTS["precision"]
    adaptation: str = DEFAULTS["adaptation"]
    qat: str = DEFAULTS["qat"]
    lora_rank: int = 16
    sharding: str = "none"
    world_size: int = 1
    offload: str = "none"
    zero: ZeroOptions = ZeroOptions()

    def __post_init__(self) -> None:
        for field in ("seq_len", "batch", "accumulation", "world_size", "lora_rank"):
            if getattr(self, field) < 1:
                raise PlanError(f"{field} must be at least 1")
        for slot, known in MODELLED.items():
            _demand_known(slot, getattr(self, slot), known)
        for name, words in (("sharding", SHARDINGS), ("offload", OFFLOADS), ("packing", ("full", "padded"))):
            _demand_known(name, getattr(self, name), words)
        self._demand_compatible()

    def _demand_compatible(self) -> None:
        if self.sharding == "none" and self.world_size > 1:
            raise PlanError(
                f"{self.world_size} GPUs that train together share the step: say which sharding, " + ", ".join(SHARDINGS[1:])
            )
        self._demand_an_offload_that_is()
        if self.linear != "plain" and self.adaptation == "full":
            raise PlanError(f"linear {self.linear} freezes its weights, so something else must learn: use it with adaptation lora")
        if self.linear != "plain" and self.numerics.autocast:
            raise PlanError(
                f"under autocast layers of linear {self.linear} give back the dtype that they were given, so half of the activations"
                " are fp32; that is not modelled: use precision bf16_pure"
            )
        if self.optimizer == "adafactor" and self.sharding.startswith("zero"):
            raise PlanError(
                "ZeRO gives the optimizer flat pieces of the weights, of whose rows and columns Adafactor knows nothing"
            )
        if self.sharding.startswith("zero") and self.numerics.autocast:
            raise PlanError(
                "DeepSpeed's ZeRO trains 16-bit weights with an fp32 copy or everything in fp32; autocast is not modelled"
            )
        if self.sharding == "zero3" and self.linear != "plain":
            raise PlanError("ZeRO stage 3 cannot part weights that bitsandbytes has quantized here; use fsdp2 or zero2")
        if self.sharding.startswith("fsdp2") and self.optimizer.endswith("_bnb"):
            raise PlanError(f"{self.optimizer} does not take the sharded tensors of {self.sharding}; adamw8bit_ao does")
        if self.dropout and self.attention == "flex":
            raise PlanError("FlexAttention has no dropout")
        if self.checkpointing == "selective" and self.rope == "liger":
            raise PlanError("Liger's rotation writes over queries and keys, which selective checkpointing keeps; use rope eager")
        if self.checkpointing == "selective" and self.attention == "flex":
            raise PlanError(
                "FlexAttention is compiled, and what selective checkpointing keeps of it is not modelled; use sdpa_flash"
            )

    def _demand_an_offload_that_is(self) -> None:
        if self.offload == "parameters" and self.sharding != "zero3" and not self.sharding.startswith("fsdp2"):
            raise PlanError(f"parameters can be offloaded under zero3 and fsdp2 only, not under {self.sharding}")
        if self.offload == "optimizer" and self.sharding not in ZERO_STAGES:
            raise PlanError(
                f"the optimizer can be offloaded by itself under zero1, zero2 and zero3, not under {self.sharding}; "
                "torchao's way, offload optimizer_ao, is for sharding none"
            )
        if self.offload == "optimizer_nvme" and self.sharding != "zero3":
            raise PlanError(f"DeepSpeed puts states on disk under zero3 only, not under {self.sharding}")
        if self.offload == "optimizer_ao":
            if self.sharding != "none":
                raise PlanError(f"torchao moves the states of one GPU: offload optimizer_ao has sharding none, not {self.sharding}")
            if self.numerics.master or self.numerics.scaling != "none" or self.clip_norm:
                raise PlanError(
                    "torchao's CPUOffloadOptimizer copies gradients to the host while the backward runs, before they can be clipped, "
                    "unscaled or given to an fp32 copy: offload optimizer_ao needs --clip-norm 0 and precision bf16_pure or fp32"
                )
        if self.optimizer == "adamw_cpu_deepspeed" and (self.offload == "none" or not self.sharding.startswith("zero")):
            raise PlanError(
                "adamw_cpu_deepspeed updates states in host memory: it needs offload optimizer, under zero1, zero2 or zero3"
            )

    def demand_kernels_of_cuda(self) -> None:
        """Raises PlanError for an attention that has no kernel on CUDA for the dtype."""
        if self.compute_bytes == 4 and self.attention in SIXTEEN_BITS:
            raise PlanError(f"{self.attention} computes in 16 bits only, and precision {self.precision} in 32; use sdpa_efficient")

    @property
    def numerics(self) -> Numerics:
        return NUMERICS[self.precision]

    @property
    def compute_bytes(self) -> int:
        return DTYPE_BYTES[self.numerics.compute]

    @property
    def weight_bytes(self) -> int:
        return DTYPE_BYTES[self.numerics.weights]

    @property
    def checkpoint_every(self) -> int:
        """Of so many layers one is computed again in the backward; 0 for none."""
        return {"none": 0, "every_second": 2}.get(self.checkpointing, 1)

    @property
    def master_bytes(self) -> int:
        """Of the copy that the optimizer updates; 0 where it updates the weights themselves."""
        return 0 if self.numerics.master is None else DTYPE_BYTES[self.numerics.master]


def _demand_known(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        near = get_close_matches(value, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise PlanError(f"{field}: the memory model has no formulas for {value!r}{hint}; it has {', '.join(known)}")


def model_named(name: str) -> ModelSpec:
    """A shape of `bench list models`, or the config.json at that path. Raises PlanError, in words, for neither."""
    models = read_models()
    if name in models:
        return of_shape(models[name])
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".json" and path.is_file():
        return of_config(path)
    near = nearest(name, list(models))
    hint = f"; did you mean {near!r}?" if near else ""
    raise PlanError(f"{name!r} is neither a named model nor a config.json{hint} (`bench list models` shows the names)")


def of_shape(shape: ModelShape) -> ModelSpec:
    """The fields that memory depends on."""
    return ModelSpec(
        name=shape.name, **{entry.name: getattr(shape, entry.name) for entry in fields(ModelSpec) if entry.name != "name"}
    )


def of_config(path: Path) -> ModelSpec:
    """From a config.json of Hugging Face."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        missing = [key for key in ("model_type", *CONFIG_FIELDS.values()) if key not in config]
        if missing:
            raise PlanError(f"{path} lacks {', '.join(missing)}: it is no configuration of a decoder that is known here")
        wrong = [key for key in CONFIG_FIELDS.values() if not isinstance(config[key], int)]
        if wrong:
            raise PlanError(f"{path}: {', '.join(wrong)} must be whole numbers")
        sizes = {field: int(config[key]) for field, key in CONFIG_FIELDS.items()}
        architecture = str(config["model_type"])
        if not config.get("head_dim") and sizes["hidden_size"] % sizes["heads"]:
            raise PlanError(
                f"{path}: hidden_size ({sizes['hidden_size']}) must be a multiple of num_attention_heads ({sizes['heads']}), "
                "or head_dim be given"
            )
        if (config.get("head_dim") or sizes["hidden_size"] // sizes["heads"]) % 2:
            raise PlanError(f"{path}: head_dim must be even, since rotary positions turn its halves")
        if config.get("mlp_bias") or (config.get("attention_bias") and architecture != "qwen2"):
            raise PlanError(f"{path}: the memory model has no formulas for attention_bias and mlp_bias in {architecture}")
        # Qwen's configurations name a window that they do not use.
        window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
        return ModelSpec(
            name=path.parent.name or path.name,
            architecture=architecture,
            kv_heads=int(config.get("num_key_value_heads") or sizes["heads"]),
            head_dim=int(config.get("head_dim") or sizes["hidden_size"] // sizes["heads"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            sliding_window=None if window is None else int(window),
            **sizes,
        )
    except (OSError, ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise PlanError(f"{path} cannot be read as a config.json: {error}") from error
