"""The algorithms in plain PyTorch, one tensor at a time, in whatever dtype their operands have: references, never measured.

Each takes the spec, the number of the step (from 1), parameter, gradient and the dictionary of its states, and returns the new
parameter. In float64 they are what an implementation is compared with; in the case's dtype they round after every operation, which
is what plain PyTorch loses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING

from bench.workloads.optimizer._recipe import OptimizerSpec

if TYPE_CHECKING:
    import torch

States = MutableMapping[str, "torch.Tensor"]
Algorithm = Callable[[OptimizerSpec, int, "torch.Tensor", "torch.Tensor", States], "torch.Tensor"]

ADAFACTOR_DECAY = -0.8
ADAFACTOR_LEAST_RMS = 1e-3
MUON_POLYNOMIAL = (3.4445, -4.7750, 2.0315)
MUON_ITERATIONS = 5
MUON_EPS = 1e-7
MUON_RMS = 0.2


def _average(states: States, name: str, new: torch.Tensor, share: float) -> torch.Tensor:
    """The running average `name`, moved by `share` towards `new`; it begins at zero."""
    old = states.get(name)
    states[name] = share * new if old is None else old + share * (new - old)
    return states[name]


def adamw(spec: OptimizerSpec, step: int, p: torch.Tensor, g: torch.Tensor, states: States) -> torch.Tensor:
    """Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2, with the schedule's factor 1."""
    beta1, beta2 = spec.betas
    first = _average(states, "first", g, 1.0 - beta1)
    second = _average(states, "second", g * g, 1.0 - beta2)
    root = (second / (1.0 - beta2**step)).sqrt() + spec.eps
    return p * (1.0 - spec.lr * spec.weight_decay) - (spec.lr / (1.0 - beta1**step)) * first / root


def lion(spec: OptimizerSpec, step: int, p: torch.Tensor, g: torch.Tensor, states: States) -> torch.Tensor:
    """Chen et al., Symbolic Discovery of Optimization Algorithms, program 1.

    Rounding may turn a sign near 0, which costs two whole steps of one number: even in fp32 a recipe does well to declare 1e-3.
    """
    beta1, beta2 = spec.lion_betas
    old = states.get("first")
    direction = (1.0 - beta1) * g if old is None else beta1 * old + (1.0 - beta1) * g
    _average(states, "first", g, 1.0 - beta2)
    return p * (1.0 - spec.lr * spec.weight_decay) - spec.lr * direction.sign()


def sgd(spec: OptimizerSpec, step: int, p: torch.Tensor, g: torch.Tensor, states: States) -> torch.Tensor:
    """Heavy-ball momentum without dampening, the decay within the gradient: what torch documents for `torch.optim.SGD`."""
    decayed = g + spec.weight_decay * p
    states["momentum"] = spec.momentum * states["momentum"] + decayed if "momentum" in states else decayed
    return p - spec.lr * states["momentum"]


def adafactor(spec: OptimizerSpec, step: int, p: torch.Tensor, g: torch.Tensor, states: States) -> torch.Tensor:
    """Shazeer and Stern, Adafactor, algorithms 4 and 5, with means for sums and torch's two changes.

    The relative step is at most `lr`, and the smallest positive number stands at the quotient instead of in the averages. It is
    that of the stored dtype, which float64 cannot know: with gradients far above it, it is not felt.
    """
    import torch

    share = step**ADAFACTOR_DECAY
    size = max(ADAFACTOR_LEAST_RMS, float(p.double().square().mean().sqrt()))
    scale = size * min(spec.lr, step**-0.5)
    tiny = torch.finfo(p.dtype).eps
    squared = g * g
    if g.dim() > 1:
        rows = _average(states, "rows", squared.mean(-1, keepdim=True), share)
        columns = _average(states, "columns", squared.mean(-2, keepdim=True), share)
        variance = rows * columns / rows.mean(-2, keepdim=True).clamp(min=tiny)
    else:
        variance = _average(states, "variance", squared, share)
    update = g * variance.clamp(min=tiny * tiny).rsqrt()
    clipped = update / max(1.0, float(update.double().square().mean().sqrt()))
    return p * (1.0 - spec.lr * spec.weight_decay) - scale * clipped


def muon(spec: OptimizerSpec, step: int, p: torch.Tensor, g: torch.Tensor, states: States) -> torch.Tensor:
    """Jordan, Muon (kellerjordan.github.io/posts/muon): a Nesterov momentum whose singular values a polynomial brings near 1.

    The step is scaled by 0.2 sqrt(larger side), which gives updates of AdamW's size (Liu et al., Muon is Scalable for LLM Training,
    section 2.2). What is no matrix is AdamW's, as its author asks for.
    """
    if p.dim() != 2:
        return adamw(spec, step, p, g, states)
    average = _average(states, "momentum", g, 1.0 - spec.muon_momentum)
    looking_ahead = g + spec.muon_momentum * (average - g)
    tall = p.shape[0] > p.shape[1]
    x = looking_ahead.T if tall else looking_ahead
    x = x / x.norm().clamp(min=MUON_EPS)
    a, b, c = MUON_POLYNOMIAL
    for _ in range(MUON_ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    scale = spec.lr * MUON_RMS * max(p.shape) ** 0.5
    return p * (1.0 - spec.lr * spec.weight_decay) - scale * (x.T if tall else x)


REFERENCES: Mapping[str, Algorithm] = {"adamw": adamw, "lion": lion, "muon": muon, "sgd": sgd, "adafactor": adafactor}
