"""In which order the modules of a decoder use their weights in one step, stretch by stretch: what DeepSpeed's list of a step has.

Tensors are numbered: the embedding is 0, then come those of the layers in the order of their forward, then the last norm's, then the last
layer's. Equal layers share their uses, so a stretch says from which number on its own tensors are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MLP = 3
"""Projections at a layer's end."""


@dataclass(frozen=True, slots=True)
class Use:
    """A module takes its tensors, or is done with them."""

    begins: bool
    tensors: tuple[int, ...]
    """Counted from a stretch's first."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Uses in their order: one object for all stretches that are alike, which have tensors of equal sizes."""

    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """The forward or the backward of a layer, or of something before, between or behind them."""

    pattern: Pattern
    first: int
    """Number of the tensor that is 0 in the pattern."""


@dataclass(frozen=True, slots=True)
class Order:
    """A whole step. Sequences by layer are in the order of the forward."""

    before: Stretch
    forward: tuple[Stretch, ...]
    norm: Stretch
    loss: Stretch
    loss_backward: Stretch
    norm_backward: Stretch
    backward: tuple[Stretch, ...]
    """With the second forward of a layer that is checkpointed."""
    embedding: Stretch

    def stretches(self) -> Iterator[Stretch]:
        """As they are run."""
        yield self.before
        yield from self.forward
        yield from (self.norm, self.loss, self.loss_backward, self.norm_backward)
        yield from reversed(self.backward)
        yield self.embedding


def order(modules: Sequence[tuple[int, ...]], layers: int, *, tied: bool, checkpoint_every: int, activation: bool) -> Order:
    """`modules`: of a layer in the order of the forward, with the numbers of their tensors in it.

    `tied`: the last layer's weight is the embedding's. `checkpoint_every`: 0 for none. `activation`: whether the mlp's is a module.
    """
    width = sum(map(len, modules))
    firsts = [1 + width * index for index in range(layers)]
    norm = 1 + width * layers
    head = 0 if tied else norm + 1
    # The model, the decoder, the embedding, the angles.
    before = Pattern((*_whole(()), *_whole(()), *_whole((0,)), *_whole(())))
    forward = Pattern(tuple(use for tensors in _with_containers(modules, activation=activation) for use in _whole(tensors)))
    plain, again = (Pattern(tuple(_backward(modules, activation=activation, again=again))) for again in (False, True))
    of_layer = [again if checkpoint_every and index % checkpoint_every == 0 else plain for index in range(layers)]
    return Order(
        before=Stretch(before, 0),
        forward=tuple(Stretch(forward, first) for first in firsts),
        norm=_alone(norm),
        loss=_alone(head),
        loss_backward=_alone(head),
        norm_backward=_alone(norm),
        backward=tuple(Stretch(pattern, first) for pattern, first in zip(of_layer, firsts, strict=True)),
        embedding=_alone(0),
    )


def _alone(tensor: int) -> Stretch:
    return Stretch(Pattern(_whole((tensor,))), 0)


def _whole(tensors: tuple[int, ...]) -> tuple[Use, ...]:
    return Use(True, tensors), Use(False, tensors)


def _backward(modules: Sequence[tuple[int, ...]], *, activation: bool, again: bool) -> Iterator[Use]:
    """A checkpointed layer runs again when the backward of its last module asks for its input, and only until that module has saved it."""
    layer = _with_containers(modules, activation=activation)
    for _ in ("layer", "mlp"):
        yield Use(True, ())
    yield Use(True, layer[-1])
    if again:
        for tensors in layer[:-1]:
            yield from _whole(tensors)
        yield Use(True, layer[-1])
    yield Use(False, layer[-1])
    for at in reversed(range(len(modules) - 1)):
        if at == len(modules) - MLP - 2 or (activation and at == len(modules) - MLP):
            yield Use(True, ())  # the attention, or what comes after the gate
        yield from _whole(modules[at])


def _with_containers(layer: Sequence[tuple[int, ...]], *, activation: bool) -> list[tuple[int, ...]]:
    """In the order of the forward. A module without tensors of its own fetches ahead too: the layer, its attention and its mlp."""
    norm, *attention, second = layer[:-MLP]
    gate, *mlp = layer[-MLP:]
    return [(), norm, (), *attention, second, (), gate, *([()] if activation else []), *mlp]
