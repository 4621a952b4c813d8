"""A decoder's weights, tensor by tensor: how many there are, which of them learn, and what they take as they are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bench.plan.spec import ModelSpec, TrainSpec

DOUBLE_BLOCK = 256
FOUR_BIT_BLOCK = 64
"""Weights that share a scale in bitsandbytes' 4-bit formats; scales that share one under double quantization."""
CODE_BYTES = 64
"""The table of sixteen fp32 levels that each 4-bit weight carries."""
DOUBLE_BYTES = 4 + 1024
"""Offset and table of 256 levels beside scales of 8 bits."""


@dataclass(frozen=True, slots=True)
class Weight:
    """`count` tensors of one shape. `block`: within the decoder layers. `matrix`: a linear layer's, which quantization can take."""

    name: str
    shape: tuple[int, ...]
    count: int
    block: bool
    matrix: bool
    learns: bool
    element_bytes: int

    @property
    def elements(self) -> int:
        """Of one of them."""
        return math.prod(self.shape)

    @property
    def total(self) -> int:
        return self.elements * self.count


def projections(model: ModelSpec) -> dict[str, tuple[int, int]]:
    """Name to (out, in) of the linear layers of a block."""
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    h, i = model.hidden_size, model.intermediate_size
    return {
        "q_proj": (q, h),
        "k_proj": (kv, h),
        "v_proj": (kv, h),
        "o_proj": (h, q),
        "gate_proj": (i, h),
        "up_proj": (i, h),
        "down_proj": (h, i),
    }


def weights(model: ModelSpec, train: TrainSpec) -> tuple[Weight, ...]:
    """All of them in the order in which a model lists its parameters."""
    return tuple(_weights(model, train))


def _weights(model: ModelSpec, train: TrainSpec) -> Iterator[Weight]:
    learns, layers, size = train.adaptation == "full", model.layers, train.weight_bytes
    yield Weight("embedding", (model.vocab_size, model.hidden_size), 1, False, False, learns, size)
    for name, shape in projections(model).items():
        yield Weight(name, shape, layers, True, True, learns, size)
        if model.biases and name in ("q_proj", "k_proj", "v_proj"):
            yield Weight(f"{name} bias", shape[:1], layers, True, False, learns, size)
        if not learns:
            yield Weight(f"{name} adapter a", (train.lora_rank, shape[1]), layers, True, False, True, 4)
            yield Weight(f"{name} adapter b", (shape[0], train.lora_rank), layers, True, False, True, 4)
    if model.head_norms:
        yield Weight("head norms", (model.head_dim,), 2 * layers, True, False, learns, size)
    yield Weight("norms", (model.hidden_size,), 2 * layers, True, False, learns, size)
    yield Weight("last norm", (model.hidden_size,), 1, False, False, learns, size)
    if not model.tied_embeddings:
        yield Weight("last layer", (model.vocab_size, model.hidden_size), 1, False, False, learns, size)


def parameters(model: ModelSpec) -> int:
    """Of the model itself, without adapters."""
    return sum(weight.total for weight in weights(model, TrainSpec(seq_len=1)))


def kept_bytes(weight: Weight, linear: str) -> int:
    """What one tensor takes as `linear` keeps it."""
    if linear == "plain" or not weight.matrix:
        return weight.elements * weight.element_bytes
    scales = -(-weight.elements // FOUR_BIT_BLOCK)
    packed = weight.elements // 2 + CODE_BYTES
    if linear.endswith("double"):
        return packed + scales + 4 * -(-scales // DOUBLE_BLOCK) + DOUBLE_BYTES
    return packed + 4 * scales
