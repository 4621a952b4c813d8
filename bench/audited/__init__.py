"""What a probe reports of somebody's own training: plain data, one file a process, read by the command that started the script.

A process writes `<rank>-<pid>.json` into the folder that it was given, anew whenever it knows more: after the profiled steps, and when it
ends. A launcher or a process that never updated a weight reports no steps. What a probe could not see is None, or is missing from a list
or a mapping; `notes` says why, in sentences. Nothing here is a judgement.

Units: seconds, bytes, counts; shares are from 0 to 1.
"""

from bench.audited.parts import (
    Adapters,
    Compiled,
    DeepSpeed,
    Device,
    Model,
    Optimizer,
    Plain,
    Quantized,
    Sharding,
    ShardingUnit,
    Tensors,
)
from bench.audited.process import AUDIT_VERSION, FEWEST_STEPS, Audited, Ended
from bench.audited.ran import ATTENTION_KINDS, AttentionKernel, Checkpointing, LigerPiece, ModuleClass, Precision
from bench.audited.took import Cause, Data, Memory, Place, Steps

__all__ = [
    "ATTENTION_KINDS",
    "AUDIT_VERSION",
    "FEWEST_STEPS",
    "Adapters",
    "AttentionKernel",
    "Audited",
    "Cause",
    "Checkpointing",
    "Compiled",
    "Data",
    "DeepSpeed",
    "Device",
    "Ended",
    "LigerPiece",
    "Memory",
    "Model",
    "ModuleClass",
    "Optimizer",
    "Place",
    "Plain",
    "Precision",
    "Quantized",
    "Sharding",
    "ShardingUnit",
    "Steps",
    "Tensors",
]
