"""ZeRO as DeepSpeed 0.19 allocates it, stages 0 to 2 (`runtime/zero/stage_1_and_2.py`); stage 3 in `zero3.py`.

That is more than the paper counts. In stages 1 to 3 an fp32 copy of the share is updated, in fp32 training too, and optimizers see one flat
tensor. With S for the weights of a share, e for bytes of a weight and B for `reduce_bucket_size`:

    stage 1   whole gradients until the backward ends; then a bucket of e·B is filled with them, and what is the rank's own is copied out
    stage 2   each gradient is copied into the bucket as it comes; when it is full, what is the rank's own goes into e·S, which is made when
              the first of it does: the ranks with the model's end have it from the start, those with its beginning late
    stage 0   an fp32 copy of all, in 16 bits; gradients are laid flat by buckets to be summed, and stay beside their fp32 casts

Own gradients are whole tensors, also of weights that two shares divide; a bucket in which shares meet is copied to be summed. A gradient
larger than the bucket waits, whole, for the next one, and a weight that is used twice has one only when the embedding has its part of it.
In their update own gradients are laid flat and cast before they are let go of, and their norm is taken in fp64, piece by piece; states on
the host have it taken as the bucket is sent. What is told of a moment is the rank that needs most then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from bench.plan.buckets import Emptied, Gradient, coming, emptied
from bench.plan.optimizers import States, states
from bench.plan.pinning import Pinning
from bench.plan.residents import ANY, Residents, paged, updated_on_host
from bench.plan.shares import Leaves, Sent, Sharding, moments_of, moved_out
from bench.plan.spec import ModelSpec, PlanError, TrainSpec
from bench.plan.terms import Away, Term
from bench.plan.weights import Weight, weights
from bench.plan.zero3 import Shared, stage3
from bench.plan.zero_terms import DEEPSPEED, FP32_BYTES, FP64_BYTES, bucket, gradients, updates, used_twice, waiting

SUMMED_AT_ONCE = 500_000_000
"""Elements after which stage 0 sums a bucket of gradients (`MEMORY_OPT_ALLREDUCE_SIZE` of the engine)."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """How many weights lie where, in elements. Ranks in the model's order."""

    learned: int
    share: int
    coming: tuple[Gradient, ...]
    touched: tuple[int, ...]
    """By rank: of the tensors that its share touches, whole."""
    piece: tuple[int, ...]
    """By rank: the largest piece of one tensor in its share."""
    largest: int
    summed: int
    """The largest bucket of stage 0: tensors in their order until there are `SUMMED_AT_ONCE`."""
    first_fill: int
    """What lies in the bucket when it is emptied for the first time after a backward of stage 1; a larger gradient lies beside it."""

    def ranks_of(self, gradient: Gradient) -> range:
        """Whose shares a tensor lies in."""
        return range(gradient.start // self.share, (gradient.start + gradient.elements - 1) // self.share + 1)


@lru_cache(maxsize=64)
def _shares(model: ModelSpec, adaptation: str, lora_rank: int, ranks: int, bucket_elements: int) -> _Shares:
    every = weights(model, TrainSpec(seq_len=1, adaptation=adaptation, lora_rank=lora_rank))
    gradients_ = coming(model, every)
    in_order = sorted(gradients_, key=lambda gradient: gradient.start)
    sizes = [gradient.elements for gradient in in_order]
    share = -(-sum(sizes) // ranks)
    touched, piece = [0] * ranks, [0] * ranks
    for gradient in in_order:
        end = gradient.start + gradient.elements
        for rank in range(gradient.start // share, (end - 1) // share + 1):
            touched[rank] += gradient.elements
            piece[rank] = max(piece[rank], min(end, (rank + 1) * share) - max(gradient.start, rank * share))
    first = next(emptied(in_order, bucket_elements)).elements
    return _Shares(
        sum(sizes),
        share,
        tuple(gradients_),
        tuple(touched),
        tuple(piece),
        max(sizes),
        _summed(sizes),
        first if first <= bucket_elements else 0,
    )


def _summed(sizes: list[int]) -> int:
    largest = filled = 0
    for size in sizes:
        filled += size
        largest = max(largest, filled)
        if filled > SUMMED_AT_ONCE:
            filled = 0
    return largest


def zero(model: ModelSpec, train: TrainSpec, whole: Residents, *, cuda: bool) -> Sharding:
    """Of the stage that `train` says. Raises PlanError for a precision that DeepSpeed does not train so.

    `cuda`: whether what lies on the host is pinned, for copies to a device.
    """
    if train.precision not in ("bf16_master", "fp16_master", "fp32"):
        raise PlanError(
            "under DeepSpeed's engine weights have an fp32 copy or are fp32: use precision bf16_master, fp16_master or fp32, "
            f"not {train.precision}"
        )
    of = _shares(model, train.adaptation, train.lora_rank, train.world_size, train.zero.reduce_bucket)
    if train.sharding == "zero0":
        return _stage0(train, whole, of)
    flat = Weight("share", (of.share,), 1, False, False, True, FP32_BYTES)
    kept = states(train.optimizer, [flat], FP32_BYTES, device_steps=train.optimizer == "adamw_fused")
    terms, away = _terms(train, whole, of.share, kept), paged(kept, train)
    if train.offload != "none":
        terms = moved_out(terms, "optimizer_states")
    if train.sharding == "zero3":
        return stage3(model, train, whole, Shared(terms, kept, away, of.share, of.coming), cuda=cuda)
    if train.offload != "none":
        away = (*_on_host(train, of, cuda=cuda), *updated_on_host(train, kept), *away)
    return _stages_1_and_2(model, train, whole, of, kept, terms, away)


def _on_host(train: TrainSpec, of: _Shares, *, cuda: bool) -> Iterator[Away]:
    """The fp32 copy with its gradients, and what the weights' dtype has on its way there and back; all of it is pinned."""
    size, pinning = train.weight_bytes, Pinning(cuda=cuda)
    yield pinning.away("fp32 copy of the share", [FP32_BYTES * of.share], "4·S", DEEPSPEED)
    yield pinning.away("new weights on their way to the GPU", [size * of.share], "e·S", DEEPSPEED)
    yield pinning.away("a gradient on its way here", [size * of.largest], "e·the largest", DEEPSPEED)
    yield pinning.away("gradients of the fp32 copy", [FP32_BYTES * of.share], "4·S", DEEPSPEED)
    if train.accumulation > 1:
        summed = [pinning.away("sums of micro-batches", sizes, "e·each of the share's tensors", DEEPSPEED) for sizes in
                  ([size * gradient.elements for gradient in of.coming if rank in of.ranks_of(gradient)]
                   for rank in {0, train.world_size - 1})]  # fmt: skip
        yield max(summed, key=lambda away: away.size_bytes)


def _stage0(train: TrainSpec, whole: Residents, of: _Shares) -> Sharding:
    """The engine without ZeRO, around an optimizer of torch (`fp16/unfused_optimizer.py`). Adapters have the weights' dtype there."""
    size = train.weight_bytes
    terms, gradients, cast = _adapters_cast(train, whole.terms), _adapters_cast(train, whole.gradients), whole.master_gradients
    if size < FP32_BYTES and not cast:  # of adapters: a copy is kept of them here only
        copy = Term("master copy", ANY, "optimizer_states", FP32_BYTES * of.learned, "4·P", DEEPSPEED)
        cast = (Term("gradients of the master copy", ANY, "gradients", FP32_BYTES * of.learned, "4·P", DEEPSPEED),)
        terms = (*terms, copy)
    laid = Term("gradients laid flat, to be summed", ANY, "temporaries", size * of.summed, "e·B", DEEPSPEED)
    ends = moments_of({"gradients summed": (*terms, *gradients, laid)}, "backward")
    updates = moments_of({"update": (*terms, *gradients, *cast, *whole.update)})
    return Sharding(replace(whole, terms=terms, gradients=gradients), (*ends, *updates), {}, Leaves.WHOLE)


def _adapters_cast(train: TrainSpec, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The engine makes fp32 adapters what the other weights are."""
    return tuple(
        replace(term, size_bytes=term.size_bytes * train.weight_bytes // FP32_BYTES) if " adapter " in term.name else term
        for term in terms
    )


def _terms(train: TrainSpec, whole: Residents, share: int, kept: States) -> tuple[Term, ...]:
    """Weights, all of one dtype, and what the share's update keeps."""
    plain = _adapters_cast(train, tuple(term for term in whole.terms if term.category != "optimizer_states"))
    master = Term("master copy of the share", ANY, "optimizer_states", FP32_BYTES * share, "4·S", DEEPSPEED)
    moments = Term("optimizer states of the share", ANY, "optimizer_states", kept.device_bytes, f"{kept.formula}, of S weights",
                   f"the slot optimizer: {train.optimizer}")  # fmt: skip
    return (*plain, master, moments)


def _stages_1_and_2(
    model: ModelSpec, train: TrainSpec, whole: Residents, of: _Shares, kept: States, terms: tuple[Term, ...], away: tuple[Away, ...]
) -> Sharding:
    size = train.weight_bytes
    on_host = train.offload != "none"
    if on_host:
        extra = Term("gradient on its way to the host", ANY, "other_residents", size * of.largest, "e·the largest", DEEPSPEED)
        terms = (*terms, extra)

    def own(elements: int) -> Term:
        made = 0 if on_host else size * elements
        return gradients("gradients of the share's tensors", made, "e·S and the rest of divided tensors")

    ready = own(max(of.touched))
    by_rank = zip(of.touched, of.piece, strict=True)
    touched, piece = max(by_rank, key=lambda rank: size * rank[0] + FP64_BYTES * rank[1])
    ends = moments_of(updates(train, terms, ready, (own(touched), piece), of.share, kept))
    if train.sharding == "zero1" and train.zero.overlap_comm != "on":
        emptying = bucket(train, "temporaries")
        left = size * (of.learned - of.first_fill)
        full = gradients("gradients not yet in the bucket", left, "e·P - e·B")
        last = moments_of({"own gradients copied out": (*terms, full, emptying, own(of.touched[0]))}, "backward")
        return Sharding(
            replace(whole, terms=terms, gradients=_adapters_cast(train, whole.gradients), away=away),
            (*last, *ends),
            {"backward:loss": (), "backward": (emptying,), "last": (emptying,)},
            Leaves.WHOLE,
        )
    filled, twice = bucket(train, "gradients"), used_twice(model, train)
    during = {"backward:loss": (), "backward:last norm": twice}
    if of.coming[0].place > model.layers:
        during["backward:last norm"] = (filled,)
    sent: list[Sent] = []
    by_layer, made = {model.layers - 1: 0, 0: 0}, 0
    for step in emptied(of.coming, train.zero.reduce_bucket):
        before, made = made, max(made, *(of.touched[rank] for rank in _ranks(of, step)))
        alone = waiting(train, step)
        if step.place == model.layers:
            during["backward:last norm"] = (*during["backward:last norm"], *alone)
        if step.place >= 0:
            by_layer |= {min(step.place, model.layers - 1): made, 0: made}
        there = (filled, *alone, *(twice if step.place >= 0 else ()))
        sent += [Sent(step.place, step.nth, (*there, *terms)) for terms in _sending(train, of, step, own(before), own(made))]
    for layer, elements in by_layer.items():
        during[f"backward:{layer}"] = (filled, *twice, own(elements))
    during["last"] = during["backward:0"]
    shown = replace(whole, terms=terms, gradients=(ready,), away=away)
    return Sharding(shown, ends, during, Leaves.NOTHING, sent=tuple(sent))


def _ranks(of: _Shares, step: Emptied) -> set[int]:
    return {rank for gradient in step.gradients for rank in of.ranks_of(gradient)}


def _sending(train: TrainSpec, of: _Shares, step: Emptied, before: Term, after: Term) -> Iterator[tuple[Term, ...]]:
    """A bucket with pieces of several shares is copied to be summed; then each rank's own is taken out."""
    ranks = _ranks(of, step)
    if len(ranks) > 1:
        copied = Term("bucket copied, to be summed", ANY, "temporaries", train.weight_bytes * step.elements, "e·B", DEEPSPEED)
        yield before, copied
    if train.offload == "none":
        yield (after,)
    else:
        piece = max(of.piece[rank] for rank in ranks)
        yield (Term("a gradient in fp64, for its norm", ANY, "temporaries", FP64_BYTES * piece, "8·the largest piece", DEEPSPEED),)
