"""What a step keeps: between two steps (weights, states), and between forward and backward (activations)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bench.workloads.linear._held import held_bytes
from bench.workloads.optimizer._states import state_bytes
from bench.workloads.train_step._change import kept_apart
from bench.workloads.train_step._step import TrainingStep, unheard

if TYPE_CHECKING:
    import torch


def holdings(step: TrainingStep) -> dict[str, list[torch.Tensor]]:
    """The tensors that a step leaves behind, by cause."""
    own = step.driver.holdings()
    if own is not None:
        return {cause: list(tensors) for cause, tensors in own.items()}
    weights = [*step.model.parameters(), *step.model.buffers()]
    learned = (*step.update.learned, *step.update.masters)
    return {
        "parameters": [*weights, *(tensor for weight in weights for tensor in _scales(weight))],
        "gradients": [weight.grad for weight in learned if weight.grad is not None],
        "optimizer_states": [*step.update.masters, *_tensors(step.update.optimizer.state)],
    }


def _scales(weight: Any) -> Iterator[torch.Tensor]:
    """What a quantized weight of bitsandbytes carries beside its numbers."""
    state = getattr(weight, "quant_state", None)
    for owner in (weight, state, getattr(state, "state2", None)):
        if owner is not None:
            carried = (getattr(owner, name, None) for name in ("SCB", "absmax", "code", "offset"))
            yield from _tensors([one for one in carried if one is not None])


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


def memory_findings(step: TrainingStep) -> dict[str, float]:
    """weight_bytes of the whole model; state_bytes; on a device with memory of its own the part of them that lies off it; saved_bytes
    of one micro-batch, where hooks see it. Lets go of the gradients first: beside all activations there need be no room for them.
    Where ranks or an engine hold the tensors they say themselves what that is.
    """
    if not step.driver.whole:
        seen = step.driver.whole_weights and not kept_apart(step.changes)
        return step.driver.findings() | ({"saved_bytes": float(saved_in_a_step(step))} if seen else {})
    step.update.clear_gradients()
    states, on_host = state_bytes(step.update.optimizer)
    on_device = step.model.lm_head.weight.device.type != "cpu"
    return {
        "weight_bytes": float(held_bytes(step.model)),
        "state_bytes": float(states),
        **({"state_host_bytes": float(on_host)} if on_device else {}),
        **({"saved_bytes": float(saved_bytes(step))} if not kept_apart(step.changes) else {}),
        **step.driver.findings(),
    }


def saved_bytes(step: TrainingStep) -> int:
    """Bytes that autograd keeps after the forward of one micro-batch, weights excluded; storages count once and whole."""
    with step.running(), _saving(step) as kept:
        loss = step.micro_loss(next(iter(step.micro_batches(step.inputs))), unheard)
        total = sum(kept.values())
    del loss
    return total


def saved_in_a_step(step: TrainingStep) -> int:
    """The same where a forward cannot stay without its backward, nor that without its update: of the first micro-batch of a whole step."""
    totals = []

    def begin(phase: str) -> None:
        if phase == "backward":
            totals.append(sum(kept.values()))

    with _saving(step) as kept:
        step.phased(step.inputs, begin)
    return totals[0]


@contextlib.contextmanager
def _saving(step: TrainingStep) -> Iterator[dict[int, int]]:
    """Fills address to bytes of what is saved within the block."""
    import torch

    weights = step.driver.holdings()
    known = weights["parameters"] if weights is not None else step.model.parameters()
    own = {tensor.untyped_storage().data_ptr() for tensor in known}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> Any:
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself may be the node's own output: a cycle that is never freed

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept
