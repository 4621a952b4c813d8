"""What stage 3 of ZeRO has gathered of its weights at each place of a step, as DeepSpeed's coordinator fetches them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from bench.plan.coordinator import Coordinator
from bench.plan.uses import order


@dataclass(frozen=True, slots=True)
class Gathered:
    """The most elements that are there at a place: gathered tensors and the buffers that they came in."""

    forward: tuple[int, ...]
    """By layer."""
    norm: int
    """The last one, in the forward."""
    loss: int
    """In both directions."""
    norm_backward: int
    backward: tuple[int, ...]
    """By layer, with the second forward of one that is checkpointed."""
    used: tuple[tuple[int, ...], ...]
    """By layer and module, in the order of the forward: while the backward of the module runs."""
    embedding: int


@lru_cache(maxsize=64)
def gathered(
    embedding: int,
    block: tuple[tuple[int, ...], ...],
    end: tuple[int, ...],
    *,
    layers: int,
    checkpoint_every: int,
    activation: bool,
    ranks: int,
    prefetch: int,
    threshold: int,
) -> Gathered:
    """Of a decoder: `block` has the tensors of a layer's modules in the order of the forward, `end` those of norm and last layer.

    `end` without a last layer uses the embedding again. `checkpoint_every`: 0 for none. `activation`: whether the mlp's is a module.
    Up to `threshold` elements nothing is divided.
    """
    number = count()
    modules = [tuple(next(number) for _ in own) for own in block]
    uses = order(modules, layers, tied=len(end) == 1, checkpoint_every=checkpoint_every, activation=activation)
    stretches = list(uses.stretches())
    sizes = [embedding, *[size for own in block for size in own] * layers, *end]
    replayed = Coordinator(sizes, stretches, ranks=ranks, prefetch=prefetch, threshold=threshold).run()
    highest = dict(zip(stretches, replayed, strict=True))
    forward = [highest[stretch].elements for stretch in uses.forward]
    forward[0] = max(forward[0], highest[uses.before].elements)
    return Gathered(
        tuple(forward),
        highest[uses.norm].elements,
        max(highest[uses.loss].elements, highest[uses.loss_backward].elements),
        highest[uses.norm_backward].elements,
        tuple(highest[stretch].elements for stretch in uses.backward),
        tuple(tuple(highest[stretch].while_used[own] for own in modules) for stretch in uses.backward),
        highest[uses.embedding].elements,
    )
