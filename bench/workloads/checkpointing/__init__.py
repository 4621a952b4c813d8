"""What of a decoder's activations is kept between forward and backward, and what is computed again.

The slot's builder gets the step's spec and returns a change of the model. All go through transformers' own
`gradient_checkpointing_enable`, which wraps each decoder layer in torch's non-reentrant checkpoint: that is what users switch on. The
proof is that a checkpointed layer ran its forward twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.workloads.train_step._change import Change, Evidence

if TYPE_CHECKING:
    from bench.workloads.train_step._spec import TrainStepSpec

REQUIRES = ["transformers>=5.17"]
"""Since when layers can be left out and inputs moved to the host; every decoder comes from there."""
DTYPES = ["fp32", "tf32", "bf16", "fp16"]


def checkpointed(every: int, context: Callable[[], Any] | None = None, *, offload: bool = False) -> Change:
    """Checkpoints each `every`-th layer, the first among them; `context` makes the contexts of a selective checkpoint."""
    options: dict[str, Any] = {"use_reentrant": False}
    if context is not None:
        options["context_fn"] = context

    def enable(model: Any) -> Any:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options, every_n_layers=every, offload=offload)
        return model

    proof = functools.partial(runs_missed, again=lambda layer: layer % every == 0)
    return Change(enable, proof, keeps_apart=context is not None)


def runs_missed(evidence: Evidence, again: Callable[[int], bool]) -> str | None:
    """Which layer did not run as often as it should: twice a micro-batch where `again` says so, else once."""
    layers = evidence.model.model.layers
    flags = [bool(layer.gradient_checkpointing) for layer in layers]
    if flags != [again(index) for index in range(len(layers))]:
        return f"{sum(flags)} of {len(flags)} layers are checkpointed"
    for index, runs in enumerate(evidence.runs or ()):
        wanted = evidence.accumulation * (2 if again(index) else 1)
        if runs != wanted:
            return f"layer {index} ran its forward {runs} times and not {wanted}"
    return None


CHECKPOINTED: Mapping[str, Callable[[int], float]] = {
    "none": lambda layers: 0.0,
    "selective": lambda layers: 0.0,
    "every_second": lambda layers: (layers + 1) // 2 / layers,
    "full": lambda layers: 1.0,
    "full_offloaded": lambda layers: 1.0,
}
"""The share of the layers that are computed again, by how many there are; selective checkpoints keep all products."""
UNSEEN_ATTENTION = ("flash_attn4", "flex")
"""Attentions that are no operator to torch's dispatcher: a selective checkpoint computes them again."""


def recomputed_share(spec: TrainStepSpec) -> float | None:
    """The share of the layers' FLOPs that checkpointing computes again; for FLOPs of the hardware.

    None for a way from outside, and where a selective checkpoint does not see the attention. torch's checkpoint ends the second forward
    once all is there that the backward needs. That is the input of a layer's last product, which is so left out (`_to_the_end`).
    """
    from bench.workloads.train_step._architectures import windows
    from bench.workloads.train_step._flops import down_flops, forward_flops

    name = spec.filled_with("checkpointing")
    checkpointed_layers = CHECKPOINTED.get(name)
    if checkpointed_layers is None or (name == "selective" and spec.filled_with("attention") in UNSEEN_ATTENTION):
        return None
    share = checkpointed_layers(spec.shape.layers)
    if not share or _to_the_end(spec):
        return share
    return share * (1.0 - down_flops(spec) / forward_flops(spec, windows(spec.shape))[0])


def _to_the_end(spec: TrainStepSpec) -> bool:
    """Whether a layer's second forward includes its last product: where something after it is needed, or where it is part of a function
    that hands over what it keeps when it is done, as quantized products do, adapters' frozen ones before what they add, and compiled
    code that a checkpoint calls. Code that is traced with its checkpoint leaves the product out."""
    from bench.workloads.compile import traces_checkpoint
    from bench.workloads.train_step._architectures import ARCHITECTURES

    if ARCHITECTURES[spec.shape.architecture].ends_with_norm:
        return True
    if spec.filled_with("compile") != "none":
        return not traces_checkpoint(spec)
    plain = {"adaptation": "full", "linear": "plain"}
    others = any(spec.filled_with(slot) != name for slot, name in plain.items())
    return others or spec.filled_with("swiglu") == "compiled" or spec.filled_with("sharding") == "zero3"
