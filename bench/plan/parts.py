"""The parts of a step in a row, layers, last norm and loss, with what each leaves; equal layers are one part that comes several times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from bench.plan.alike import Alike
from bench.plan.dims import Dims
from bench.plan.layer import decoder_layer, last_norm
from bench.plan.loss import loss
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.tape import CHECKPOINT, SAVED, Alive, Replay, Tape

_SIZE = attrgetter("size")


class Group(NamedTuple):
    """Buffers that come and go together."""

    alive: tuple[Alive, ...]
    size: int
    """Of all of them."""


Left: TypeAlias = Sequence[tuple[Group, int]]
"""What is alive besides, and how many times."""


def group(alive: tuple[Alive, ...]) -> Group:
    """With its sum."""
    return Group(alive, sum(map(_SIZE, alive)))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One, or as many as are equal."""

    name: str
    count: int
    forward: Replay
    backward: Replay
    accumulated: Replay
    """The backward of micro-batches after the first."""
    saved: Group
    """Left by the forward."""
    cached: Group
    """Left by the forward until that of the whole model ends."""
    gradients: Group
    """Left by the backward."""
    offloaded: int
    """Bytes that each leaves in the host's memory."""

    def of_saved(self) -> Group:
        return self.saved

    def of_cached(self) -> Group:
        return self.cached

    def of_gradients(self) -> Group:
        return self.gradients


class Chain:
    """The parts of a step in the order of the forward."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.saved_bytes = [0, *accumulate(part.saved.size for part in parts)]
        """Before each part, saved by those before it."""
        last = {part: index for index, part in enumerate(parts)}
        first = {part: len(parts) - 1 - index for index, part in enumerate(reversed(parts))}
        self.ends = frozenset((*first.values(), *last.values()))
        """Where each part comes first and last."""
        self._saved: dict[int, Left] = {}
        self._gradients: dict[int, Left] = {}
        self._shares: dict[tuple[Part, int, int], Group] = {}

    def saved(self, index: int) -> Left:
        """By the parts before that one."""
        if index not in self._saved:
            self._saved[index] = times(self.parts[:index], Part.of_saved)
        return self._saved[index]

    def gradients(self, index: int) -> Left:
        """By that part and those behind it."""
        if index not in self._gradients:
            self._gradients[index] = times(self.parts[index:], Part.of_gradients)
        return self._gradients[index]

    def share(self, part: Part, share: int, out_of: int) -> Group:
        """What is left of a part's gradients once they are shared out."""
        key = (part, share, out_of)
        if key not in self._shares:
            shares = (
                replace(alive, size=-(-alive.size * share // out_of), formula=f"({alive.formula})·{share}/{out_of}")
                for alive in part.gradients.alive
            )
            self._shares[key] = group(tuple(shares))
        return self._shares[key]


def times(parts: Sequence[Part], of: Callable[[Part], Group]) -> Left:
    """What each part leaves, as often as it comes."""
    return [(of(part), count) for part, count in Counter(parts).items()]


def chain(
    model: ModelSpec, train: TrainSpec, dims: Dims, alike: Alike, *, cuda: bool, in_place: bool, gone: tuple[bool, bool]
) -> Chain:
    """`in_place`: whether autograd adds gradients so.

    `gone`: whether each gradient is let go of as soon as it is made, added to one that is there or copied into a buffer: in the first
    micro-batch, and in those after it.
    """
    made = _Making(train, in_place, gone)

    def layer(index: int, *, first: bool = False) -> Part:
        def decoder() -> Tape:
            return decoder_layer(model, train, dims, cuda=cuda, first=first)

        tape = alike.tape("first layer" if first else "layer", train, decoder)
        return made.checkpointed(tape, model.layers) if every and index % every == 0 else made.part("layer", tape, model.layers)

    every = train.checkpoint_every
    kinds = [layer(index) for index in range(max(1, every))]
    layers = [kinds[index % len(kinds)] for index in range(model.layers)]
    if train.adaptation != "full" and not every:  # a checkpointed first layer is made to hand a gradient back
        layers[0] = layer(0, first=True)
    norm = alike.tape("last norm", train, lambda: last_norm(model, train, dims, cuda=cuda))
    end = alike.tape("loss", train, lambda: loss(model, train, dims, cuda=cuda))
    return Chain([*layers, made.part("last norm", norm, 1), made.part("loss", end, 1)])


@dataclass(frozen=True, slots=True)
class _Making:
    """From tapes to parts."""

    train: TrainSpec
    in_place: bool
    gone: tuple[bool, bool]

    def part(self, name: str, tape: Tape, count: int) -> Part:
        backward, accumulated = (tape.backward(in_place=self.in_place, accumulated=gone) for gone in self.gone)
        forward = tape.forward(saving=True)
        return Part(name, count, forward, backward, accumulated, group(forward.left), group(()), group(backward.left), 0)

    def checkpointed(self, tape: Tape, count: int) -> Part:
        keeping = self.train.checkpointing == "selective"
        forward = tape.forward(saving=False, keeping=keeping)
        kept = Alive(tape.source.name, tape.source.size, tape.source.formula, "checkpoint", CHECKPOINT)
        left, offloaded = (kept, *forward.left), 0
        if self.train.checkpointing == "full_offloaded":
            left, offloaded = (), kept.size
        cached = tuple(Alive(of.name, of.size, of.formula, of.part, SAVED) for of in tape.cached)
        backward, accumulated = (
            tape.backward(in_place=self.in_place, again=True, kept=keeping, accumulated=gone) for gone in self.gone
        )
        return Part("layer", count, forward, backward, accumulated, group(left), group(cached), group(backward.left), offloaded)
