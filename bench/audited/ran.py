"""What ran in a profiled step, as a probe reports it: attention, modules, Liger's pieces, checkpointing, precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """What it does, told from its class's name and its place: `attention`, `norm`, `mlp`, `rotary`, `embedding`, `head`, `loss`, `layer`,
    `linear`, `other`.
    """
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
class Precision:
    """In which numbers it computed."""

    autocast_dtype: str | None
    """Of the model's forward in the profiled step; None where autocast was off, or no forward was watched."""
    matmul_inputs: Mapping[str, float]
    """dtype of matrix products to the share of their time in the profiled step; empty where unknown."""
    float32_matmul: str | None
    """`highest` (fp32), `high` (tf32), `medium`."""
    scaler_scale: float | None = None
    scaler_skipped: int | None = None
    """Updates that a GradScaler left out; None without one."""
    scaler_asked: int | None = None
    """Updates that it was asked for, those that it left out included."""
    autocast_watched: bool = True
    """Whether a forward was watched, compiled parts of it too."""
