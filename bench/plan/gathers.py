"""What stage 3 of ZeRO has gathered of its weights at each place of a step, as DeepSpeed's coordinator fetches, keeps and lets go of them.

Read off `runtime/zero/partitioned_param_coordinator.py` and `all_gather_coalesced` of `partition_parameters.py` (0.19). Each module fetches
what it uses and then, from the list of a whole step, what comes next until `stage3_prefetch_bucket_size` is passed: whole tensors, and
those that are there already cost nothing, so a fetch may reach far ahead. A weight stays after its use if it comes again within
`stage3_max_reuse_distance` weights, or if a fetch has counted on it. Tensors that are fetched together arrive in one buffer, are copied out
of it when the first of them is used, and the buffer stays until the last of them is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

REUSED_WITHIN = 1_000_000_000
"""Elements, `stage3_max_reuse_distance`."""
LIVE = 1_000_000_000
"""Elements up to which weights are fetched ahead, `stage3_max_live_parameters`."""
MLP = 3
"""Projections at a layer's end."""


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


@dataclass(slots=True, eq=False)
class _Arrival:
    """Tensors that were fetched together."""

    tensors: list[int]
    buffer: int
    """Elements of the buffer that they share; 0 for one by itself, which is gathered where it stays."""
    waited_for: bool = False
    left: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Use:
    """A module takes its tensors, or is done with them."""

    begins: bool
    tensors: tuple[int, ...]
    place: tuple[str, int]


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
    sizes = [embedding]
    modules: list[list[tuple[int, ...]]] = []
    for _ in range(layers):
        modules.append([])
        for own in block:
            modules[-1].append(tuple(range(len(sizes), len(sizes) + len(own))))
            sizes += own
    norm = len(sizes)
    sizes += end
    head = norm + 1 if len(end) > 1 else 0
    uses = list(_uses(modules, norm, head, checkpoint_every, activation=activation))
    run = _Coordinator(sizes, uses, ranks, prefetch, threshold)
    highest = run.highest()
    return Gathered(
        tuple(highest[("forward", index)] for index in range(layers)),
        highest[("norm", 0)],
        highest[("loss", 0)],
        highest[("norm", 1)],
        tuple(highest[("backward", index)] for index in range(layers)),
        tuple(tuple(run.while_used[("backward", index), tensors] for tensors in own) for index, own in enumerate(modules)),
        highest[("embedding", 0)],
    )


def _uses(
    modules: Sequence[Sequence[tuple[int, ...]]], norm: int, head: int, checkpoint_every: int, *, activation: bool
) -> Iterator[_Use]:
    """The modules of a step in their order. A checkpointed layer runs again when the backward of its last module asks for its input,
    and only until that module has saved it."""

    def whole(tensors: tuple[int, ...], place: tuple[str, int]) -> Iterator[_Use]:
        yield _Use(True, tensors, place)
        yield _Use(False, tensors, place)

    before: tuple[tuple[int, ...], ...] = ((), (), (0,), ())  # the model, the decoder, the embedding, the angles
    for tensors in before:
        yield from whole(tensors, ("forward", 0))
    for index, layer in enumerate(modules):
        for tensors in _with_containers(layer, activation=activation):
            yield from whole(tensors, ("forward", index))
    for tensor, place in ((norm, ("norm", 0)), (head, ("loss", 0)), (head, ("loss", 0)), (norm, ("norm", 1))):
        yield from whole((tensor,), place)
    for index in reversed(range(len(modules))):
        place, layer = ("backward", index), _with_containers(modules[index], activation=activation)
        for _ in ("layer", "mlp"):
            yield _Use(True, (), place)
        yield _Use(True, layer[-1], place)
        if checkpoint_every and index % checkpoint_every == 0:
            for tensors in layer[:-1]:
                yield from whole(tensors, place)
            yield _Use(True, layer[-1], place)
        yield _Use(False, layer[-1], place)
        for at in reversed(range(len(modules[index]) - 1)):
            if at == len(modules[index]) - MLP - 2 or (activation and at == len(modules[index]) - MLP):
                yield _Use(True, (), place)  # the attention, or what comes after the gate
            yield from whole(modules[index][at], place)
    yield from whole((0,), ("embedding", 0))


def _with_containers(layer: Sequence[tuple[int, ...]], *, activation: bool) -> list[tuple[int, ...]]:
    """In the order of the forward. A module without tensors of its own fetches ahead too: the layer, its attention and its mlp."""
    norm, *attention, second = layer[:-MLP]
    gate, *mlp = layer[-MLP:]
    return [(), norm, (), *attention, second, (), gate, *([()] if activation else []), *mlp]


class _Coordinator:
    """Runs a step whose order is known, as every one after the first two is."""

    def __init__(self, sizes: Sequence[int], uses: Sequence[_Use], ranks: int, prefetch: int, threshold: int) -> None:
        self.sizes, self.uses, self.ranks, self.prefetch = sizes, uses, ranks, prefetch
        self.divided = [size > threshold for size in sizes]
        self.trace = deque((tensor, step) for step, use in enumerate(use for use in uses if use.begins) for tensor in use.tensors)
        self.passed = [0]
        self.coming: list[deque[int]] = [deque() for _ in sizes]
        for step, use in enumerate(use for use in uses if use.begins):
            self.passed.append(self.passed[-1] + sum(sizes[tensor] for tensor in use.tensors))
            for tensor in use.tensors:
                self.coming[tensor].append(step)
        self.counted_on = [-1] * len(sizes)
        self.there: set[int] = {tensor for tensor, divided in enumerate(self.divided) if not divided}
        self.on_the_way: dict[int, _Arrival] = {}
        self.step = self.available = self.now = 0
        self.most: dict[tuple[str, int], int] = {}
        self.while_used: dict[tuple[tuple[str, int], tuple[int, ...]], int] = {}

    def highest(self) -> dict[tuple[str, int], int]:
        """Place to elements."""
        for use in self.uses:
            if use.begins:
                self._begin(use)
            else:
                self._end(use)
        return self.most

    def _note(self, place: tuple[str, int]) -> None:
        self.most[place] = max(self.most.get(place, 0), self.now)

    def _absent(self, tensor: int) -> bool:
        return tensor not in self.there and tensor not in self.on_the_way

    def _begin(self, use: _Use) -> None:
        absent = [tensor for tensor in use.tensors if self._absent(tensor)]
        if absent:
            self._fetch(absent)
            self._note(use.place)
        for tensor in use.tensors:
            self._wait(tensor, use.place)
        behind = sum(self.counted_on[tensor] < self.step for tensor in use.tensors)
        for _ in range(behind):
            tensor, step = self.trace.popleft()
            self.counted_on[tensor] = step
        self._fetch_ahead()
        self.step += 1
        self._note(use.place)

    def _fetch(self, tensors: list[int]) -> None:
        self.available += sum(self.sizes[tensor] for tensor in tensors)
        padded = sum(-(-self.sizes[tensor] // self.ranks) * self.ranks for tensor in tensors)
        together = len(tensors) > 1 and self.ranks > 1
        arrival = _Arrival(tensors, padded if together else 0, left=set(tensors))
        self.now += padded
        self.on_the_way |= dict.fromkeys(tensors, arrival)

    def _wait(self, tensor: int, place: tuple[str, int]) -> None:
        arrival = self.on_the_way.get(tensor)
        if arrival is None or tensor not in arrival.left:
            return
        if not arrival.waited_for:
            arrival.waited_for = True
            self.there |= set(arrival.tensors)
            if arrival.buffer:
                self.now += sum(self.sizes[other] for other in arrival.tensors)
                self._note(place)
        arrival.left.discard(tensor)
        del self.on_the_way[tensor]
        if not arrival.left:
            self.now -= arrival.buffer

    def _fetch_ahead(self) -> None:
        limit, ahead, size = min(LIVE - self.available, self.prefetch), [], 0
        while self.trace and size < limit:
            tensor, step = self.trace.popleft()
            self.counted_on[tensor] = max(self.counted_on[tensor], step)
            if self._absent(tensor) and tensor not in ahead:
                ahead.append(tensor)
                size += self.sizes[tensor]
        if ahead:
            self._fetch(ahead)

    def _end(self, use: _Use) -> None:
        self.while_used[use.place, use.tensors] = self.now
        for tensor in use.tensors:
            coming = self.coming[tensor]
            while coming and coming[0] < self.step:
                coming.popleft()
            soon = bool(coming) and self.passed[coming[0]] - self.passed[self.step] < REUSED_WITHIN
            if self.divided[tensor] and tensor in self.there and not soon and self.counted_on[tensor] <= self.step:
                self.there.discard(tensor)
                self.available -= self.sizes[tensor]
                self.now -= self.sizes[tensor]
