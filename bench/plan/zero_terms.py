"""Terms that several stages of ZeRO have: the bucket, gradients that wait, and the moments of the update."""

from __future__ import annotations

from collections.abc import Mapping

from bench.plan.buckets import Emptied
from bench.plan.optimizers import States
from bench.plan.residents import ANY
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.terms import Term

DEEPSPEED = "DeepSpeed 0.19, runtime/zero"
FP32_BYTES, FP64_BYTES = 4, 8


def bucket(train: TrainSpec, category: str) -> Term:
    """What gradients are copied into; two of them where stages 1 and 2 send beside the backward."""
    copies = 2 if train.sharding != "zero3" and train.zero.overlap_comm == "on" else 1
    size = copies * train.zero.reduce_bucket * train.weight_bytes
    return Term("bucket to reduce", ANY, category, size, "e·B, B: reduce_bucket_size", DEEPSPEED)


def gradients(name: str, size: int, formula: str) -> Term:
    """Of some weights, whole or shared out."""
    return Term(name, ANY, "gradients", size, formula, DEEPSPEED)


def used_twice(model: ModelSpec, train: TrainSpec) -> tuple[Term, ...]:
    """The last layer's part of a tied embedding's gradient: autograd hands it on when the embedding's has been added to it."""
    if not model.tied_embeddings or train.adaptation != "full":
        return ()
    category = "temporaries" if train.linear_cross_entropy == "eager" else "loss"
    size = train.weight_bytes * model.vocab_size * model.hidden_size
    return (Term("last layer's gradient, waits for the embedding's", ANY, category, size, "e·V·h", "torch.autograd"),)


def waiting(train: TrainSpec, emptied: Emptied) -> tuple[Term, ...]:
    """A gradient that is larger than the bucket and is sent as it is."""
    if emptied.elements <= train.zero.reduce_bucket:
        return ()
    return (gradients("gradient larger than the bucket", train.weight_bytes * emptied.elements, "e·the tensor"),)


def updates(
    train: TrainSpec, terms: tuple[Term, ...], ready: Term, normed: tuple[Term, int], at_once: int, kept: States
) -> Mapping[str, tuple[Term, ...]]:
    """`ready`: own gradients, as the backward leaves them. `normed`: those of the rank whose norm needs most, and its largest piece.

    `at_once`: elements updated together.
    """
    if train.offload != "none":
        return {"update on the host": terms}
    size, (own, piece) = train.weight_bytes, normed
    norm = Term("a gradient in fp64, for its norm", ANY, "temporaries", FP64_BYTES * piece, "8·the largest piece", DEEPSPEED)
    flat = Term("gradients laid flat", ANY, "temporaries", size * at_once, "e·S", DEEPSPEED)
    cast = Term(
        "gradients of the master copy", ANY, "temporaries", FP32_BYTES * at_once if size < FP32_BYTES else 0, "4·S", DEEPSPEED
    )
    master = Term("gradients of the master copy", ANY, "temporaries", FP32_BYTES * at_once, "4·S", DEEPSPEED)
    update = Term("update", ANY, "temporaries", kept.update_bytes, kept.update_formula, f"the slot optimizer: {train.optimizer}")
    stays = (ready,) if train.sharding == "zero3" else ()
    return {
        "norm of the gradients": (*terms, own, norm),
        "gradients laid flat and cast": (*terms, ready, flat, cast),
        "update": (*terms, *stays, master, update),
    }
