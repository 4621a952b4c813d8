"""torchao's CPUOffloadOptimizer on one GPU: what it keeps in host memory (`torchao/optim/cpu_offload.py`, 0.18).

Each weight from 4096 elements on has a copy and a gradient in pinned host memory and an optimizer of its own there; smaller ones are
updated on the GPU. Gradients stay on the GPU as well, as the harness has it, since with accumulation they must.
"""

from __future__ import annotations

from dataclasses import replace

from bench.plan.optimizers import States, states
from bench.plan.pinning import Pinning
from bench.plan.residents import Residents, paged, updated_on_host
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.weights import Weight, weights

TORCHAO = "torchao/optim/cpu_offload.py"
LEAST = 4096
"""Elements, `minimal_size`."""


def states_on_host(model: ModelSpec, train: TrainSpec, whole: Residents, *, cuda: bool) -> Residents:
    """Those of one device that holds all, with the states of large weights moved out. `cuda`: whether copies are pinned."""
    learned = [weight for weight in weights(model, train) if weight.learns]
    near = _kept(train, [weight for weight in learned if weight.elements < LEAST], device_steps=train.optimizer == "adamw_fused")
    large = [weight for weight in learned if weight.elements >= LEAST]
    far = _kept(train, large, device_steps=False)
    at_once = max((_kept(train, [replace(weight, count=1)], device_steps=False).update_bytes for weight in large), default=0)
    pinned = [weight.elements * weight.element_bytes for weight in large for _ in range(weight.count)]
    terms = tuple(
        replace(term, size_bytes=near.device_bytes, formula=f"{term.formula}, below {LEAST} elements")
        if term.category == "optimizer_states"
        else term
        for term in whole.terms
    )
    update = tuple(replace(term, size_bytes=near.update_bytes) for term in whole.update)
    pinning = Pinning(cuda=cuda)
    away = (
        pinning.away("copies of weights", pinned, "e·each tensor", TORCHAO),
        pinning.away("gradients", pinned, "e·each tensor", TORCHAO),
        *updated_on_host(train, replace(far, update_bytes=at_once)),
        *paged(far, train),
    )
    return replace(whole, terms=terms, update=update, away=away)


def _kept(train: TrainSpec, learned: list[Weight], *, device_steps: bool) -> States:
    return states(train.optimizer, learned, learned[0].element_bytes if learned else 0, device_steps)
