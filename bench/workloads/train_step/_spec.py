"""The frozen spec of a training step: which decoder, on how many tokens, filled with what. Slots that change a model get it too."""

from __future__ import annotations

from dataclasses import dataclass

from bench.declare import AttentionSpec
from bench.workloads.attention._masks import cut

PACKINGS = ("full", "packed", "padded")
RANDOM = "random"


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A decoder of transformers, by the fields of a named model shape."""

    architecture: str
    """transformers' `model_type`."""
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    tied_embeddings: bool
    norm_eps: float
    rope_theta: float
    max_position: int
    sliding_window: int | None
    rope_factor: float | None


@dataclass(frozen=True, slots=True)
class ZeroOptions:
    """What of DeepSpeed's section `zero_optimization` a suite sets; what is not here stays as DeepSpeed has it. Buckets in elements."""

    reduce_bucket: int
    gather_bucket: int
    overlap_comm: str
    """`on`, `off`, or `default`: on in stage 3, off else."""
    contiguous_gradients: bool
    prefetch_bucket: int
    """Weights fetched ahead of use; of stage 3."""
    persistence_threshold: int
    """Weights up to this size are not partitioned; of stage 3."""


@dataclass(frozen=True, slots=True)
class TrainStepSpec:
    """One step over `accumulation` micro-batches of `batch` sequences of `seq_len` tokens.

    `packing` says what lies in a sequence. `full`: one text without end. `packed`: documents of unequal length (the rule of
    `attention/_masks.py`), the same lengths in all sequences; none sees another, and positions begin anew in each. `padded`: one text a
    sequence, whose length falls evenly from `seq_len` to half of it over the sequences of a micro-batch; the rest is padding, which
    nothing is learned from. Raises ValueError where documents do not belong to the packing.
    """

    shape: DecoderShape
    batch: int
    seq_len: int
    accumulation: int
    clip_norm: float
    """Norm to which all gradients together are cut; 0 where they are left as they are."""
    packing: str
    documents: int | None
    """In each sequence; only of `packed`."""
    dropout: float
    """Of attention weights."""
    loss_weight: float
    """Factor of the loss that is differentiated; losses are told without it."""
    lr: float
    data_seed: int
    dtype: str
    """In which is computed."""
    fills: tuple[tuple[str, str], ...]
    """Slot and implementation, of every slot."""
    zero: ZeroOptions | None = None
    """None: DeepSpeed's defaults."""
    weights: str = RANDOM
    """`random`, or `name@hash` of the folder that they are read from."""

    def __post_init__(self) -> None:
        if (self.packing == "packed") != (self.documents is not None):
            raise ValueError("documents belong to packing: packed, and to no other")

    def filled_with(self, slot: str) -> str:
        """The implementation in a slot; raises KeyError for a slot that the step has not got."""
        return dict(self.fills)[slot]

    @property
    def lengths(self) -> tuple[tuple[int, ...], ...]:
        """Tokens of each text, by sequence of a micro-batch."""
        if self.documents is not None:
            return (cut(self.seq_len, self.documents),) * self.batch
        if self.packing == "padded":
            return tuple(
                (max(2, self.seq_len - index * (self.seq_len // 2) // max(1, self.batch - 1)),) for index in range(self.batch)
            )
        return ((self.seq_len,),) * self.batch

    @property
    def real_tokens(self) -> int:
        """Of the whole step, padding left out."""
        return self.accumulation * sum(map(sum, self.lengths))

    @property
    def labels_per_micro_batch(self) -> int:
        """Tokens that have a next one to be learned: all but the last of a packed or padded text. Of an endless text, all."""
        if self.packing == "full":
            return self.batch * self.seq_len
        return sum(length - 1 for texts in self.lengths for length in texts)

    def attention(self, window: int | None, scale: float, dtype: str) -> AttentionSpec:
        """What one layer's attention has to do; `window` is the layer's own.

        Padding stands at the end, where no token before it can see it: a causal mask hides it already. Raises ValueError where
        documents and a window that cuts them come together, which no mask of ours is.
        """
        longest = max(max(texts) for texts in self.lengths)
        window = window if window is not None and window < longest else None
        if window is not None and self.documents is not None:
            raise ValueError(
                f"a window of {window} tokens within documents of up to {longest} is no mask that the slot attention has"
            )
        return AttentionSpec(
            batch=self.batch,
            heads=self.shape.heads,
            kv_heads=self.shape.kv_heads,
            head_dim=self.shape.head_dim,
            seq_len=self.seq_len,
            kv_len=self.seq_len,
            mask="document" if self.documents is not None else "causal" if window is None else "sliding_window",
            dropout=self.dropout,
            scale=scale,
            dtype=dtype,
            window=window,
            document_lengths=cut(self.seq_len, self.documents) if self.documents is not None else None,
        )
