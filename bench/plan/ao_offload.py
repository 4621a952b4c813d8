"""torchao's CPUOffloadOptimizer on one GPU: what it keeps in host memory (`torchao/optim/cpu_offload.py`, 0.18).

Each weight from 4096 elements on has a copy and a gradient in pinned host memory and an optimizer of its own there; smaller ones are
updated on the GPU. Gradients stay on the GPU as well, as the harness has it, since with accumulation they must.
"""

from __future__ import annotations

from dataclasses import replace

from bench.plan.optimizers import states
from bench.plan.residents import Residents
from bench.plan.rounding import pinned_bytes
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.weights import Weight, weights

LEAST = 4096
"""Elements, `minimal_size`."""


def states_on_host(model: ModelSpec, train: TrainSpec, whole: Residents) -> Residents:
    """Those of one device that holds all, with the states of large weights moved out."""
    learned = [weight for weight in weights(model, train) if weight.learns]
    near = _kept(train, [weight for weight in learned if weight.elements < LEAST], device_steps=train.optimizer == "adamw_fused")
    large = [weight for weight in learned if weight.elements >= LEAST]
    far = _kept(train, large, device_steps=False)
    pinned = sum(2 * weight.count * pinned_bytes(weight.elements * weight.element_bytes) for weight in large)
    terms = tuple(
        replace(term, size_bytes=near[0], formula=f"{term.formula}, below {LEAST} elements")
        if term.category == "optimizer_states"
        else term
        for term in whole.terms
    )
    update = tuple(replace(term, size_bytes=near[1]) for term in whole.update)
    return replace(whole, terms=terms, update=update, host_bytes=far[0] + pinned)


def _kept(train: TrainSpec, learned: list[Weight], *, device_steps: bool) -> tuple[int, int]:
    """Bytes of states, and of what an update makes."""
    if not learned:
        return 0, 0
    found = states(train.optimizer, learned, learned[0].element_bytes, device_steps)
    return found.device_bytes + found.host_bytes, found.update_bytes
