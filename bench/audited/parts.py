"""What a training is made of, as a probe reports it: model, optimizer, quantized modules, adapters, and how ranks share them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Tensors:
    """How many tensors are of one dtype in one place, and what they hold."""

    dtype: str
    """As torch spells it, without `torch.`: `bfloat16`, `uint8`."""
    place: str
    """`cuda`, `cpu`, `cpu pinned`, `meta` (nothing), `managed` (paged by the driver)."""
    tensors: int
    elements: int
    bytes: int
    """Of this process alone: where ranks share something, its part."""
    what: str = ""
    """Of an optimizer's states, their name (`exp_avg`)."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """One kind of optimizer; several instances of a class with equal options are one entry."""

    class_name: str
    package: str
    """The top-level package that defines the class."""
    instances: int
    groups: int
    options: Mapping[str, Plain]
    """Of its first group: `lr`, `weight_decay`, `foreach`, `fused` … what is plain data."""
    elements: int
    """Numbers that it updates."""
    states: tuple[Tensors, ...]
    foreach: bool | None
    """Whether it updates all tensors together, which needs a copy; None where the class has no such choice."""
    fused: bool | None
    optimizer_bits: int | None = None
    """bitsandbytes: bits of a state, where it is large enough."""
    small_tensor_elements: int | None = None
    """bitsandbytes: states of fewer elements stay 32-bit."""
    paged: bool | None = None
    inner_of: str | None = None
    """Who wraps it: `deepspeed`, `accelerate`, or None."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """Modules whose weights are stored in few bits, or that pretend so while training."""

    kind: str
    """`bitsandbytes nf4`, `bitsandbytes fp4`, `bitsandbytes int8`, else package and class: `torchao Int8Tensor`."""
    modules: int
    elements: int
    bytes: int
    """What they hold, scales included where they can be seen."""
    double_quantized: bool | None = None
    compute_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Adapters:
    """Small trained matrices beside frozen ones."""

    kind: str
    """`peft LoRA`, `peft <tuner>`."""
    modules: int
    ranks: tuple[int, ...]
    targets: tuple[str, ...]
    """Last names of the modules that have them."""
    trained_elements: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """What torch.compile did."""

    modules: tuple[str, ...]
    """Classes of the compiled modules, each once; `step` of an optimizer too."""
    graphs: int
    """Distinct graphs that were compiled."""
    graph_breaks: int
    break_reasons: tuple[str, ...]
    """The most frequent, first lines only."""
    ran: int | None
    """Calls of compiled graphs in the profiled step; None where no step was profiled."""
    recompiled_while_timed: bool
    """Whether something was still compiled during the timed steps."""


@dataclass(frozen=True, slots=True)
class DeepSpeed:
    """What DeepSpeed made of its configuration."""

    given: Mapping[str, Any]
    """As the script gave it (`auto` where it did), read from the file or dictionary; empty where unknown."""
    resolved: Mapping[str, Any]
    """As the engine has it: `zero_stage`, `zero`, `train_batch_size`, `train_micro_batch_size_per_gpu`, `gradient_accumulation_steps`,
    `gradient_clipping`, `bf16`, `fp16`, `offload_optimizer_device`, `offload_param_device`, `optimizer_class`, `zero_optimizer_class`."""
    skipped_steps: int


@dataclass(frozen=True, slots=True)
class ShardingUnit:
    """FSDP: modules of one class that are gathered each as one."""

    class_name: str
    units: int
    largest_elements: int
    """Numbers that the largest of them gathers at once."""
    root: bool
    """Whether this is the outermost one: it holds all that no other unit holds."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """How ranks share the model."""

    kind: str
    """`none`, `ddp`, `fsdp1`, `fsdp2`, `deepspeed`."""
    world_size: int
    units: tuple[ShardingUnit, ...] = ()
    root_holds: tuple[str, ...] = ()
    """Names of the largest parameters that the root unit gathers (embeddings, the head)."""
    options: Mapping[str, Plain] = field(default_factory=dict)
    """`reshard_after_forward`, `param_dtype`, `reduce_dtype`, `cpu_offload`; of DDP `bucket_cap_mb`, `find_unused_parameters`,
    `gradient_as_bucket_view`, `static_graph`."""


@dataclass(frozen=True, slots=True)
class Model:
    """The outermost module whose parameters are updated."""

    class_name: str
    wrappers: tuple[str, ...]
    """From the outside in: `DistributedDataParallel`, `PeftModel`, `OptimizedModule` …"""
    parameters: tuple[Tensors, ...]
    trained_elements: int
    elements: int
    """All of them, quantized ones unpacked, sharded ones whole where that can be known."""
    config: Mapping[str, Any]
    """Of transformers: sizes and switches, `model_type`, `hidden_size` …, `attn_implementation`, `dtype`, `use_cache`."""
    layers: int
    vocab_size: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    """Of the GPU as torch names it, or of the processor: `cpu`."""
    kind: str
    """`cuda` or `cpu`."""
    capability: str | None = None
    threads: int | None = None
