"""The report of one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.audited.parts import Adapters, Compiled, DeepSpeed, Device, Model, Optimizer, Plain, Quantized, Sharding, Tensors
from bench.audited.ran import AttentionKernel, Checkpointing, LigerPiece, ModuleClass, Precision
from bench.audited.took import Data, Memory, Steps

AUDIT_VERSION = 1
"""Raised when the meaning of a field changes."""

FEWEST_STEPS = 8
"""Updates that a script must make for one of them to be timed undisturbed: the first ones warm up and are profiled."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process ended, as far as it could tell itself."""

    how: str
    """`running`: at work when it last reported, so it died without a word. `stopped`: the probe ended it after the steps that it was asked
    for. `finished`: the script came to its own end. `raised`, `interrupted`: the script did, or was.
    """
    error_type: str | None = None
    message: str | None = None
    """First line of what it raised. It may hold secrets: take them out before it is stored."""
    out_of_memory: bool = False
    at_s: float = 0.0
    """When the report was written, in seconds since 1970: of ranks that failed the first is the one whose error counts."""


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
