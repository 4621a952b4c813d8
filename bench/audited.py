"""What a probe reports of somebody's own training: plain data, one file a process, read by the command that started the script.

A process writes `<rank>-<pid>.json` into the folder that it was given, anew whenever it knows more: after the profiled steps, and when it
ends. A launcher or a process that never updated a weight reports no steps. What a probe could not see is None, or is missing from a list
or a mapping; `notes` says why, in sentences. Nothing here is a judgement.

Units: seconds, bytes, counts; shares are from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AUDIT_VERSION = 1
"""Raised when the meaning of a field changes."""

FEWEST_STEPS = 8
"""Updates that a script must make for one of them to be timed undisturbed: the first ones warm up and are profiled."""

Plain = str | int | float | bool | None

ATTENTION_KINDS = {
    "flash_attn2": "FlashAttention-2, from the flash-attn package",
    "flash_attn3": "FlashAttention-3",
    "flash_attn4": "FlashAttention-4",
    "sdpa_flash": "PyTorch's flash attention",
    "sdpa_cudnn": "PyTorch's call of cuDNN",
    "sdpa_efficient": "PyTorch's memory-efficient attention",
    "sdpa_math": "PyTorch's plain attention, called by scaled_dot_product_attention",
    "flex": "PyTorch's flex attention",
    "xformers": "xFormers",
    "eager": "products and a softmax, one after the other",
    "unknown": "something that is not known here; its names say more",
}
"""What may compute an attention, and in words: named as the implementations of the slot `attention` where there is one."""

ROLES = ("attention", "norm", "mlp", "rotary", "embedding", "head", "loss", "layer", "linear", "other")
"""What a module does, told from its class's name and its place."""

ENDS = {
    "running": "the process was still at work when it last reported: it died without a word",
    "stopped": "the probe ended the process after the steps that it was asked for",
    "finished": "the script came to its own end",
    "raised": "the script raised",
    "interrupted": "the script was interrupted",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process ended, as far as it could tell itself."""

    how: str
    """One of `ENDS`."""
    error_type: str | None = None
    message: str | None = None
    """First line of what it raised. It may hold secrets: take them out before it is stored."""
    out_of_memory: bool = False


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
class AttentionKernel:
    """One way in which attention was computed in the profiled step."""

    kind: str
    """One of `ATTENTION_KINDS`."""
    modules: int
    """Attention modules of the model whose forward it computed; 0 where modules could not be watched."""
    calls: int
    """Forward calls of it in the step."""
    names: tuple[str, ...]
    """What was seen of it: operators, and on CUDA kernels, shortened."""
    time_s: float
    """Device time of the step that was its (processor time on a CPU), forward and backward."""
    share: float
    """Of the device time of the step."""


@dataclass(frozen=True, slots=True)
class ModuleClass:
    """All modules of one class and one way of computing."""

    class_name: str
    role: str
    """One of `ROLES`."""
    package: str
    """The top-level package that defines the class: `torch`, `transformers`, `liger_kernel`, `bitsandbytes`, `__main__` …"""
    forward_package: str
    """The package whose code its forward runs: another one where it was patched."""
    instances: int
    called: int | None
    """Instances that ran in the profiled step; None where modules could not be watched."""
    time_s: float | None = None
    """Device time in it and in no module within it that is watched, forward and backward; None where not watched."""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class LigerPiece:
    """One of Liger's kernels: in how many places of the model it could stand, and in how many it does."""

    piece: str
    """`rms_norm`, `layer_norm`, `rope`, `swiglu`, `geglu`, `cross_entropy`, `fused_linear_cross_entropy`."""
    applied: int
    places: int
    plain_classes: tuple[str, ...]
    """Classes (or functions) that do the same without Liger."""
    ran: bool | None
    """Whether its kernels were seen in the profiled step; None where device kernels are not seen."""


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Which layers compute their forward a second time during the backward."""

    layers: int
    """Of the longest list of equal modules; 0 where there is none."""
    layer_class: str | None
    recomputed: int | None
    """How many of them ran again in the backward of the profiled step; None where modules could not be watched."""
    enabled: int
    """Layers whose own switch says that they are checkpointed (transformers' `gradient_checkpointing`)."""
    reentrant: bool | None = None
    """None where nothing is recomputed."""


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
class Cause:
    """Part of a peak."""

    cause: str
    """As `bench.metrics.PEAK_CAUSES` names them."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    where: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak of one profiled step, and what it consisted of."""

    device: str
    """`cuda` or `cpu`."""
    peak_bytes: int
    """Live bytes at the highest moment of the step: all that is resident included. On a CPU what torch's tensors hold."""
    phase: str
    """Where it lay: `forward`, `loss`, `backward` or `optimizer`."""
    causes: tuple[Cause, ...]
    """Their sum is the peak."""
    temporaries: tuple[Place, ...]
    """The largest temporaries at the peak."""
    phase_peaks: Mapping[str, int]
    """Bytes by phase."""
    reserved_bytes: int | None = None
    """What the caching allocator holds (CUDA)."""
    since_start_bytes: int | None = None
    """Highest bytes since the process began, or since the script last reset the counter, loading included (CUDA)."""
    device_total_bytes: int | None = None
    device_used_bytes: int | None = None
    """As the driver sees it, all processes together."""
    allocator_retries: int | None = None
    """Since the process began (CUDA): times the allocator had to give its cache back and try again."""
    out_of_memories: int | None = None
    """Refusals that the script lived through."""
    pinned_bytes: int | None = None
    """Host memory that torch has page-locked."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The updates, from the end of one to the end of the next."""

    asked: int
    seen: int
    counted_by: str
    """Whose updates they are: `DeepSpeedEngine`, or the class of the optimizer that stepped first."""
    warmup_s: tuple[float, ...]
    """The ones before and between the profiled ones."""
    profiled_s: tuple[float, ...]
    timed_s: tuple[float, ...]
    """Undisturbed: on CUDA between events on the stream, on a CPU by the host's clock."""
    micro_batches: float | None
    """Forwards of the whole model in a profiled step; None where it could not be watched."""
    tokens: float | None
    """Of one update of this rank: padding included. Mean of the steps whose inputs were seen."""
    batch_shapes: tuple[tuple[int, ...], ...] = ()
    """Distinct shapes of the model's inputs (batch, sequence), the first few."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Device time (on a CPU wall time) by phase in the profiled step: `forward`, `loss`, `backward`, `optimizer`, `other`. Their shares
    count, not their lengths, since the profiler was on."""


@dataclass(frozen=True, slots=True)
class Data:
    """How batches come to the model."""

    wait_share: float | None
    """Share of the timed steps' time in which the training waited in a DataLoader; None where none was seen."""
    workers: int | None = None
    pin_memory: bool | None = None
    padding_share: float | None = None
    """Share of the tokens that a mask (or the padding token) excludes; None where neither is there."""
    ignored_label_share: float | None = None
    """Share of the labels that the loss leaves out (-100)."""
    batches_seen: int = 0


@dataclass(frozen=True, slots=True)
class Precision:
    """In which numbers it computed."""

    autocast_dtype: str | None
    """Of the model's forward in the profiled step; None where autocast was off."""
    matmul_inputs: Mapping[str, float]
    """dtype of matrix products to the share of their time in the profiled step; empty where unknown."""
    float32_matmul: str | None
    """`highest` (fp32), `high` (tf32), `medium`."""
    scaler_scale: float | None = None
    scaler_skipped: int | None = None
    """Updates that a GradScaler left out; None without one."""


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


@dataclass(frozen=True, slots=True)
class Audited:
    """One process."""

    version: int
    pid: int
    rank: int
    world_size: int
    script: str
    """Name of the file that Python ran, without folder."""
    launched_by: tuple[str, ...]
    """`torchrun`, `accelerate`, `deepspeed`, as far as the environment tells."""
    versions: Mapping[str, str]
    """Package to version, of those that are loaded; `python` too."""
    frameworks: tuple[str, ...]
    """`transformers.Trainer`, `trl.SFTTrainer`, `accelerate`, `deepspeed`, `lightning`; a plain loop has none."""
    asked: Mapping[str, Plain]
    """What the trainer's arguments ask for, by their own names: `bf16`, `optim`, `gradient_checkpointing`, `use_liger_kernel`, `tf32` …"""
    environment: Mapping[str, str]
    """Variables that change memory or speed, from a list; none of them is secret."""
    ended: Ended
    started_s: float = 0.0
    """When the probe began, in seconds since 1970: orders trainings that one command starts one after the other."""
    device: Device | None = None
    model: Model | None = None
    gradients: tuple[Tensors, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    precision: Precision | None = None
    attention: tuple[AttentionKernel, ...] = ()
    modules: tuple[ModuleClass, ...] = ()
    liger: tuple[LigerPiece, ...] = ()
    checkpointing: Checkpointing | None = None
    quantized: tuple[Quantized, ...] = ()
    adapters: tuple[Adapters, ...] = ()
    compiled: Compiled | None = None
    deepspeed: DeepSpeed | None = None
    sharding: Sharding | None = None
    steps: Steps | None = None
    data: Data | None = None
    memory: Memory | None = None
    notes: tuple[str, ...] = ()
    """What could not be seen, and why."""
