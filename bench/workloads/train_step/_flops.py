"""Work of a training step by formula: FLOPs of the model, and those of the hardware where activations are computed again.

Model FLOPs are what the mathematics needs. For each token and weight of a matrix product 2 forward and 4 backward, the 6ND of Kaplan et
al. (2020, arXiv:2001.08361, section 2.1); a frozen weight has no gradient of its own, which leaves 2 + 2. To this the attention: each
visible pair of query and key costs 4 * head_dim a head forward (scores and weighted sum) and twice that backward, as in PaLM (Chowdhery
et al., 2022, arXiv:2204.02311, appendix B), but for the pairs that the mask hides, which PaLM counts and this does not. Looking an
embedding up is no product; the last layer is one, tied or not. Norms, activations and the optimizer are left out, as everywhere.

MFU is model FLOPs by time and the device's peak. HFU counts what is computed again under checkpointing as well. Padding is no work.
"""

from __future__ import annotations

from bench.declare import AttentionSpec
from bench.workloads.attention._masks import visible_pairs
from bench.workloads.train_step._spec import DecoderShape, TrainStepSpec


def block_weights(shape: DecoderShape) -> int:
    """Weights of the matrix products of all layers."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return shape.layers * shape.hidden_size * (2 * queries + 2 * keys + 3 * shape.intermediate_size)


def attention_flops(spec: TrainStepSpec, windows: tuple[int | None, ...]) -> int:
    """Forward FLOPs of the attention of all layers over the step's real tokens; `windows` are those of the layers."""
    pairs = sum(_pairs(length, window) for window in windows for texts in spec.lengths for length in texts)
    return 4 * spec.shape.heads * spec.shape.head_dim * pairs * spec.accumulation


def _pairs(length: int, window: int | None) -> int:
    mask = "causal" if window is None or window >= length else "sliding_window"
    text = AttentionSpec(1, 1, 1, 1, length, length, mask, 0.0, 1.0, "fp32", window=window if mask == "sliding_window" else None)
    return visible_pairs(text)


def forward_flops(spec: TrainStepSpec, windows: tuple[int | None, ...]) -> tuple[int, int]:
    """FLOPs of one forward over all micro-batches: of the layers, and of the last layer over the vocabulary."""
    layers = 2 * block_weights(spec.shape) * spec.real_tokens + attention_flops(spec, windows)
    return layers, 2 * spec.shape.vocab_size * spec.shape.hidden_size * spec.real_tokens


def down_flops(spec: TrainStepSpec) -> int:
    """Of those of the layers, FLOPs of their last products: from `intermediate_size` back to `hidden_size`."""
    return 2 * spec.shape.layers * spec.shape.hidden_size * spec.shape.intermediate_size * spec.real_tokens


def model_flops(spec: TrainStepSpec, windows: tuple[int | None, ...], *, frozen: bool = False) -> int:
    """FLOPs of a step; `frozen`: its weights get no gradient (under LoRA, whose own products are left out: less than 2 %)."""
    layers, head = forward_flops(spec, windows)
    of_weights = 2 * block_weights(spec.shape) * spec.real_tokens + head
    return 3 * (layers + head) - (of_weights if frozen else 0)


def again_flops(spec: TrainStepSpec, windows: tuple[int | None, ...], recomputed: float) -> int:
    """FLOPs of the share `recomputed` of the layers' forward (`checkpointing.recomputed_share`). With `model_flops` those of HFU."""
    return round(recomputed * forward_flops(spec, windows)[0])
