"""Puts a decoder layer, the embedding's end and the last norm on tapes, in the order in which transformers runs them."""

from __future__ import annotations

from dataclasses import replace

from bench.plan.attention import attention
from bench.plan.dims import Dims
from bench.plan.pieces import Layer, cast, linear, mlp, norm, residual, rotation
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.tape import Tape, Tensor

INPUT = "input of the layer"

CHUNK_ROWS = 128
"""`linear_cross_entropy/chunked.py` takes multiples of it."""


def dims_of(model: ModelSpec, train: TrainSpec) -> Dims:
    """The symbols' values."""
    autocast = train.numerics.autocast
    return Dims(
        {
            "b": train.batch,
            "s": train.seq_len,
            "t": train.batch * train.seq_len,
            "V": model.vocab_size,
            "h": model.hidden_size,
            "i": model.intermediate_size,
            "a": model.heads,
            "k": model.kv_heads,
            "d": model.head_dim,
            "e": train.compute_bytes,
            "w": train.weight_bytes,
            "x": 4 if autocast else train.compute_bytes,
            "r": train.lora_rank,
            "C": _chunk(model, train),
        }
    )


def _chunk(model: ModelSpec, train: TrainSpec) -> int:
    """Tokens whose logits the loss holds at once."""
    tokens = train.batch * train.seq_len
    if train.linear_cross_entropy == "chunked":
        return min(tokens, max(1, tokens * model.hidden_size // model.vocab_size // CHUNK_ROWS) * CHUNK_ROWS)
    chunks = -(-model.vocab_size // model.hidden_size)
    return min(tokens, 1 << (-(-tokens // chunks) - 1).bit_length())


def decoder_layer(model: ModelSpec, train: TrainSpec, dims: Dims, *, cuda: bool, first: bool = False) -> Tape:
    """From the stream of numbers between layers to the next. `first`: of a frozen embedding, to which no gradient goes back."""
    x = Tensor(INPUT, dims.size("x·h·t"), "x·h·t", "layer")
    layer = Layer(Tape(x), dims, model, train, cuda)
    normalised = norm(layer, x, "input norm")
    frozen_before = first and not layer.learns
    if frozen_before:
        layer.tape.operations[:] = [replace(operation, saved=(), backward=(), gradients={}) for operation in layer.tape.operations]
    projected: list[Tensor] = []
    for name, heads in (("q_proj", "a"), ("k_proj", "k"), ("v_proj", "k")):
        of = linear(layer, normalised, "h", f"{heads}·d", name, "attention", x_bytes="x", bias=model.biases,
                    holds=(normalised, *projected), to_x=not frozen_before)  # fmt: skip
        if model.head_norms and name != "v_proj":
            of = norm(layer, of, "head norm", "d", f"{heads}·t", "e")
        projected.append(of)
    q, k, v = projected
    turned_q = rotation(layer, q, "a", holds=(k, v))
    turned_k = rotation(layer, k, "k", holds=(q, v, turned_q))
    wide = (turned_q, turned_k) if train.numerics.autocast else ()
    q = cast(layer, turned_q, "a·d·t", "e", "x", "rope", holds=(turned_k, v)) if train.rope == "eager" else turned_q
    k = cast(layer, turned_k, "k·d·t", "e", "x", "rope", holds=(q, v)) if train.rope == "eager" else turned_k
    held = (q, k, v, normalised, *wide)
    out = attention(layer, q, k, v, held)
    branch = linear(layer, out, "a·d", "h", "o_proj", "attention", holds=(*held, out))
    middle = residual(layer, x, branch, "attention")
    normalised = norm(layer, middle, "post-attention norm")
    branch = mlp(layer, normalised, "x")
    residual(layer, middle, branch, "mlp", holds=(normalised,))
    return layer.tape


def last_norm(model: ModelSpec, train: TrainSpec, dims: Dims, *, cuda: bool) -> Tape:
    """From the last layer's output to the loss's input."""
    x = Tensor("output of the last layer", dims.size("x·h·t"), "x·h·t", "layer")
    layer = Layer(Tape(x), dims, model, train, cuda)
    norm(layer, x, "last norm")
    return layer.tape
