"""How gradients come out of a backward, and when DeepSpeed empties the bucket that they are copied into.

Places in the chain of a model's parts: layers from 0 on, then the last norm, then the loss; the embedding comes last of all, and what the
bucket then still has is sent when the backward has ended (`reduce_independent_p_g_buckets_and_remove_grads` of `stage_1_and_2.py` and
`stage3.py`: before a gradient that would not fit).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.plan.spec import ModelSpec
from bench.plan.weights import Weight, projections

EMBEDDING, END = -1, -2
"""Places that are no part of the chain."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """One tensor's."""

    place: int
    nth: int
    """Among those that come at the place."""
    module: int
    """Whose it is, of the place's in the order of the forward."""
    elements: int
    start: int
    """Of its weight among all that learn, laid end to end in the model's order."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """The bucket is emptied because the `nth` gradient of a place does not fit any more, or, at END, because none comes any more."""

    place: int
    nth: int
    module: int
    gradients: tuple[Gradient, ...]

    @property
    def elements(self) -> int:
        return sum(gradient.elements for gradient in self.gradients)


def in_order(model: ModelSpec, every: Iterable[Weight]) -> list[Weight]:
    """Tensor by tensor, as the model lists them."""
    every = list(every)
    before = [weight for weight in every if not weight.block and weight.name == "embedding"]
    after = [weight for weight in every if not weight.block and weight.name != "embedding"]
    return [*before, *(_block(model, every) * model.layers), *after]


def _block(model: ModelSpec, every: Iterable[Weight]) -> list[Weight]:
    return [weight for weight in every if weight.block for _ in range(weight.count // model.layers)]


def modules(model: ModelSpec, every: Sequence[Weight]) -> list[list[int]]:
    """Of a layer, in the order of the forward: where the tensors of each norm and projection stand in the layer's own order."""
    names = [weight.name for weight in _block(model, every)]
    of = {name: [at for at, other in enumerate(names) if other.split(" ")[0] == name] for name in projections(model)}
    norms = [[at] for at, name in enumerate(names) if name == "norms"]
    heads = [[at] for at, name in enumerate(names) if name == "head norms"]
    q, k, v, o, *mlp = (of[name] for name in projections(model))
    return [norms[0], q, *heads[:1], k, *heads[1:], v, o, norms[1], *mlp]


def coming(model: ModelSpec, every: Sequence[Weight]) -> list[Gradient]:
    """All gradients in the order in which a backward makes them: a weight with its bias, an adapter's second matrix before its first."""
    laid = in_order(model, every)
    starts, total = [], 0
    for weight in laid:
        starts.append(total)
        total += weight.elements * weight.learns
    width = len(_block(model, every))
    first = 1 if laid[0].name == "embedding" else 0
    of_layer = list(enumerate(modules(model, every)))
    backward = [(module, at) for module, own in reversed(of_layer) for at in _within(own, laid[first : first + width])]
    places: list[tuple[int, list[tuple[int, int]]]] = []
    if laid[-1].name == "last layer":
        places.append((model.layers + 1, [(0, len(laid) - 1)]))
    places.append((model.layers, [(0, first + width * model.layers)]))
    for layer in reversed(range(model.layers)):
        places.append((layer, [(module, first + width * layer + at) for module, at in backward]))
    places.append((EMBEDDING, [(0, 0)]))
    return [
        Gradient(place, nth, module, laid[at].elements, starts[at])
        for place, tensors in places
        for nth, (module, at) in enumerate(pair for pair in tensors if laid[pair[1]].learns)
    ]


def _within(own: Sequence[int], block: Sequence[Weight]) -> list[int]:
    adapters = [at for at in own if " adapter " in block[at].name]
    return adapters[::-1] or list(own)


def emptied(gradients: Iterable[Gradient], bucket: int) -> Iterator[Emptied]:
    """Each time that something is sent. A gradient larger than the bucket is not copied, and sent by itself when the next one comes."""
    held: list[Gradient] = []
    filled = 0
    for gradient in gradients:
        if held and filled + gradient.elements > bucket:
            yield Emptied(gradient.place, gradient.nth, gradient.module, tuple(held))
            held, filled = [], 0
        held.append(gradient)
        filled += gradient.elements
    if held:
        yield Emptied(END, 0, 0, tuple(held))
