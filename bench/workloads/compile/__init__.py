"""What of a decoder torch.compile is given: nothing, each layer, or the whole model below the loss.

The slot's builder gets the step's spec and returns a change of the model, made after every other. The loss over the vocabulary is not
compiled with it: it is a slot of its own, with a `compiled` implementation. What torch.compile cannot trace stays eager within it (a
graph break), as for users. The proof is that the modules are marked, and that code was traced.

A checkpoint is traced with what it wraps: torch supports that order in full, and it is that of torchtitan, of accelerate's regional
compilation and, for a whole model, of transformers' Trainer. A checkpoint around compiled code calls it again while the backward runs, on a
GPU in a thread of autograd's. Whatever guard does not hold any more there makes another graph, which saves other tensors than the first
did: a CheckpointError. (pytorch issues 143176 and 166926.) A checkpoint stays around compiled code where hooks are in the way, which are
not traced: its own, that move its input to the host, or those of a sharding that fetches a layer's weights. To trace it would be in
vain there. Every layer is compiled below its checkpoint as well, and is inlined where the checkpoint is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bench.workloads.train_step._change import Change, Evidence

DTYPES = ["fp32", "tf32", "bf16", "fp16"]
REFUSES = ["InvalidCxxCompiler", "No working C\\+\\+ compiler"]
FETCHING = ("fsdp2", "zero3")
"""How the names of ways begin that fetch a layer's weights by hooks of its module."""


def compiled(spec: Any, modules: Callable[[Any], list[Any]]) -> Change:
    """Compiles those modules of a model where they stand, each with the checkpoint around it where it has one that can be traced."""
    with_checkpoint = traces_checkpoint(spec)

    def compile_them(model: Any) -> Any:
        for module in modules(model):
            _compile(module, with_checkpoint)
        return model

    def missing(evidence: Evidence) -> str | None:
        eager = sum(not is_compiled(module) for module in modules(evidence.model))
        if eager:
            return f"{eager} modules are not compiled"
        return None if evidence.compiled_graphs else "nothing was compiled"

    return Change(compile_them, missing)


def traces_checkpoint(spec: Any) -> bool:
    """Whether checkpoints of compiled layers are traced with what they wrap: not where hooks are in the way."""
    hooked = spec.filled_with("checkpointing") == "full_offloaded" or spec.filled_with("sharding").startswith(FETCHING)
    return not hooked


def is_compiled(module: Any) -> bool:
    """Whether a call of the module is compiled."""
    return module._compiled_call_impl is not None


def _compile(module: Any, with_checkpoint: bool) -> None:
    import torch

    # Also below its checkpoint: where something in the layer cannot be traced with the checkpoint around it, all of it would stay eager.
    module.compile(dynamic=False)
    checkpoint = _traceable_checkpoint(module) if with_checkpoint else None
    if checkpoint is None:
        return

    def run(layer: Callable[..., Any], *inputs: Any) -> Any:
        return checkpoint(layer, *inputs)

    module._gradient_checkpointing_func = torch.compile(run, dynamic=False)


def _traceable_checkpoint(module: Any) -> Callable[..., Any] | None:
    """torch's checkpoint with its options, where transformers' layer hands itself to that and to no hooks around it.

    A whole model has the same attributes, and hands over nothing.
    """
    from torch.utils.checkpoint import checkpoint
    from transformers.modeling_layers import GradientCheckpointingLayer

    if not (isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing):
        return None
    function: Callable[..., Any] = module._gradient_checkpointing_func
    return function if isinstance(function, functools.partial) and function.func is checkpoint else None
