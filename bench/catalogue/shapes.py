"""Named model shapes, read from bench/models.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import MappingProxyType

from bench.catalogue.shipped import read_shipped
from bench.errors import HarnessError
from bench.records import Scalar


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a named decoder, as its published configuration gives them."""

    name: str
    source: str
    architecture: str
    """The family of decoders it belongs to, as transformers' `model_type` names it."""
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    """Of queries and keys."""
    vocab_size: int
    tied_embeddings: bool
    norm_eps: float
    rope_theta: float
    max_position: int
    value_head_dim: int | None = None
    """Of values, where it differs from `head_dim`."""
    sliding_window: int | None = None
    """Keys that a token sees at most, itself among them, in the layers that have a window; None where none has."""
    rope_factor: float | None = None
    """Factor by which rotary frequencies are stretched in the way of Llama 3.1; None where they are not."""
    note: str = ""
    """What these fields cannot say about the model."""

    def dims(self) -> dict[str, Scalar]:
        """The fields that a workload may name in its `dims`."""
        dims: dict[str, Scalar] = {
            entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in {"name", "source", "note"}
        }
        dims["value_head_dim"] = self.value_head_dim or self.head_dim
        return dims


def read_models() -> Mapping[str, ModelShape]:
    """All shapes by name, in the order of the file."""
    path = Path(__file__).parent.with_name("models.yaml")
    table = read_shipped(path)
    required = {entry.name for entry in fields(ModelShape) if entry.default is MISSING} - {"name"}
    shapes = {}
    for name, entry in table.items():
        missing = required - set(entry)
        if missing:
            raise HarnessError(f"{path}: {name} lacks {', '.join(sorted(missing))}")
        shapes[name] = ModelShape(name=name, **entry)
    return MappingProxyType(shapes)
