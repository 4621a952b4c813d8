"""The specs that several slots or workloads share; that of one lies in its workload's folder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Scaled dot-product attention. Logical shapes: q (batch, heads, seq_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim).

    Tensors are (batch, heads, seq, head_dim) views of (batch, seq, heads, head_dim) memory, as projections leave them. Query i stands
    at position p = i + kv_len - seq_len (aligned at the end). heads must be a multiple of kv_heads: query head h reads kv head
    h // (heads / kv_heads). Raises ValueError where `window` or `document_lengths` do not belong to the mask.
    """

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    seq_len: int
    kv_len: int
    mask: str
    """`full`: every key. `causal`: keys j <= p. `sliding_window`: p - window < j <= p. `document`: j <= p in p's own document."""
    dropout: float
    """Probability that an attention weight is dropped; the rest is scaled by 1 / (1 - dropout)."""
    scale: float
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    window: int | None = None
    """Keys that a query sees at most, itself among them; only of `sliding_window`."""
    document_lengths: tuple[int, ...] | None = None
    """Tokens of each document packed into a sequence of keys, in order, the same in all sequences; only of `document`."""

    def __post_init__(self) -> None:
        if (self.mask == "sliding_window") != (self.window is not None) or (self.window is not None and self.window < 1):
            raise ValueError("a window of at least 1 belongs to the mask sliding_window, and to no other")
        if (self.mask == "document") != (self.document_lengths is not None):
            raise ValueError("document_lengths belong to the mask document, and to no other")
        if self.document_lengths is not None and (min(self.document_lengths) < 1 or sum(self.document_lengths) != self.kv_len):
            raise ValueError(f"documents of at least one token each must add up to kv_len ({self.kv_len})")


@dataclass(frozen=True, slots=True)
class NormSpec:
    """Normalisation over the last dimension of (batch, seq_len, hidden_size)."""

    batch: int
    seq_len: int
    hidden_size: int
    eps: float
    dtype: str
    training: bool = True
