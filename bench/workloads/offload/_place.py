"""A place outside the device, and the two ways to it, as calls that can be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bench.declare import Bound

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class OffloadSpec:
    """A block of `bytes`, in numbers of `dtype`, on a device of the kind `device` (`cpu` or `cuda`)."""

    bytes: int
    direction: str
    """`to_device` or `to_host`."""
    dtype: str
    device: str


class Place(Protocol):
    """What a builder of this slot returns. It holds one block; device tensors are contiguous and of the spec's size and dtype."""

    def store(self, block: torch.Tensor) -> None:
        """Copies a device tensor here. When the current stream is idle, it is here."""

    def load(self, out: torch.Tensor) -> None:
        """Copies what was stored into a device tensor. When the current stream is idle, it is there."""

    def describe(self) -> str:
        """What this is, in a few words for a reader of the row."""


@dataclass(frozen=True, slots=True)
class Move(Bound):
    """A call in one direction, with the place that it goes to or comes from."""

    place: Place = field(kw_only=True)


def to_host(place: Place) -> Move:
    """`store` is the call; what it stored is loaded for whoever looks."""

    def forward(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        place.store(inputs["block"])
        return inputs["block"]

    def observe(block: torch.Tensor) -> dict[str, torch.Tensor]:
        out = block.new_empty(block.shape)
        place.load(out)
        return {"out": out}

    return Move(forward, observe=observe, place=place)


def to_device(place: Place) -> Move:
    """`load` is the call; the block is stored before it, untimed, whenever it is another than what lies there."""
    stored = _Stored(place)

    def forward(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        out = stored.with_room_for(inputs["block"])
        place.load(out)
        return out

    return Move(forward, prepare=stored.prepare, observe=lambda out: {"out": out}, place=place)


class _Stored:
    """Which block lies in the place, known by its tensor and by how often that has been written to."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._block: torch.Tensor | None = None
        self._version = -1
        self._out: torch.Tensor | None = None

    def prepare(self, calls: int) -> None:
        """Stores the last call's block again where it has been written to since."""
        if self._block is not None:
            self.with_room_for(self._block)

    def with_room_for(self, block: torch.Tensor) -> torch.Tensor:
        """A tensor like `block` to load it into; the block is stored first, unless it lies there as it is."""
        if self._out is None:
            self._out = block.new_empty(block.shape)
        if block is not self._block or block._version != self._version:
            self._place.store(block)
            self._block, self._version = block, block._version
        return self._out
