"""ZeRO as DeepSpeed 0.19 allocates it (`runtime/zero/stage_1_and_2.py`, `stage3.py`, `partitioned_param_coordinator.py`).

That is more than the paper counts. In stages 1 to 3 an fp32 copy of the share is updated, in fp32 training too, and optimizers see one flat
tensor. With S for the weights of a share, e for bytes of a weight and B for `reduce_bucket_size`:

    stage 1   whole gradients until the backward ends; then a bucket of e·B is filled with them, and what is the rank's own is copied out
    stage 2   each gradient is copied into the bucket as it comes, and what is the rank's own into e·S, made when the first of it comes
    stage 3   e·S of gradients and the bucket are there from the start; weights are gathered by layer and let go of, unless they are used
              again within `max_reuse_distance` weights, as those at the model's end are; a single rank uses its share as it lies
    stage 0   an fp32 copy of all, in 16 bits; gradients are laid flat by buckets to be summed, and stay beside their fp32 casts

Own gradients are whole tensors, also of weights that two shares divide. A gradient larger than the bucket waits, whole, for the next one.
In their update own gradients are laid flat and cast before they are let go of, and their norm is taken in fp64, tensor by tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from bench.plan.optimizers import States, states
from bench.plan.residents import ANY, Residents
from bench.plan.rounding import pinned_bytes
from bench.plan.shares import Leaves, Sharding, moments_of, moved_out, shared_out
from bench.plan.spec import ModelSpec, PlanError, TrainSpec
from bench.plan.terms import Term
from bench.plan.weights import Weight, weights

REUSED_WITHIN = 1_000_000_000
"""Elements, `stage3_max_reuse_distance`."""
SUB_GROUP = 1_000_000_000
"""Elements that stage 3 updates at once, `sub_group_size`."""
DEEPSPEED = "DeepSpeed 0.19, runtime/zero"
SUMMED_AT_ONCE = 500_000_000
"""Elements after which stage 0 sums a bucket of gradients (`MEMORY_OPT_ALLREDUCE_SIZE` of the engine)."""
FP32_BYTES, FP64_BYTES = 4, 8


@dataclass(frozen=True, slots=True)
class _Shares:
    """How many weights lie where, in elements."""

    learned: int
    share: int
    own_first: int
    """Of the tensors that the first rank's share touches, whole."""
    own_last: int
    largest: int
    head: int
    """The last layer, whose gradient comes first; 0 where it does not learn, or is the embedding's."""
    first_fill: int
    """What lies in the bucket when it is emptied for the first time after a backward of stage 1."""
    kept_whole: int
    """Up to the persistence threshold: never divided in stage 3."""
    divided: int
    turning: int
    """Gathered at the end of the forward in stage 3: what is used again in the backward soon enough."""
    embedding: int
    summed: int
    """The largest bucket of stage 0: tensors in their order until there are `SUMMED_AT_ONCE`."""


@lru_cache(maxsize=64)
def _shares(model: ModelSpec, adaptation: str, lora_rank: int, ranks: int, bucket: int, threshold: int) -> _Shares:
    every = weights(model, TrainSpec(seq_len=1, adaptation=adaptation, lora_rank=lora_rank))
    laid = _in_order(model, every)
    sizes = [weight.elements for weight in laid if weight.learns]
    learned = sum(sizes)
    share = -(-learned // ranks)
    divided = [weight.elements for weight in laid if weight.elements > threshold]
    return _Shares(
        learned=learned,
        share=share,
        own_first=_touched(sizes, share),
        own_last=_touched(sizes[::-1], share),
        largest=max(sizes),
        head=sizes[-1] if not model.tied_embeddings and adaptation == "full" else 0,
        first_fill=max((sum_ for sum_ in itertools.accumulate(sizes) if sum_ <= bucket), default=0),
        kept_whole=sum(weight.elements for weight in laid) - sum(divided),
        divided=sum(divided),
        turning=_turning(divided),
        embedding=laid[0].elements if laid[0].elements > threshold else 0,
        summed=_summed(sizes),
    )


def _in_order(model: ModelSpec, every: tuple[Weight, ...]) -> list[Weight]:
    """Tensor by tensor, as the model lists them."""
    before = [weight for weight in every if not weight.block and weight.name == "embedding"]
    after = [weight for weight in every if not weight.block and weight.name != "embedding"]
    block = [weight for weight in every if weight.block for _ in range(weight.count // model.layers)]
    return [*before, *(block * model.layers), *after]


def _touched(sizes: list[int], share: int) -> int:
    total = 0
    for size in sizes:
        if total >= share:
            break
        total += size
    return total


def _summed(sizes: list[int]) -> int:
    largest = filled = 0
    for size in sizes:
        filled += size
        largest = max(largest, filled)
        if filled > SUMMED_AT_ONCE:
            filled = 0
    return largest


def _turning(divided: list[int]) -> int:
    """Whoever is used in the backward again within the distance stays: what lies behind it is passed twice on the way."""
    kept = behind = 0
    for size in reversed(divided):
        if 2 * behind >= REUSED_WITHIN:
            break
        kept += size
        behind += size
    return kept


def zero(model: ModelSpec, train: TrainSpec, whole: Residents, *, cuda: bool) -> Sharding:
    """Of the stage that `train` says. Raises PlanError for a precision that DeepSpeed does not train so.

    `cuda`: whether what lies on the host is pinned, for copies to a device.
    """
    if train.precision not in ("bf16_master", "fp16_master", "fp32"):
        raise PlanError(
            "under DeepSpeed's engine weights have an fp32 copy or are fp32: use precision bf16_master, fp16_master or fp32, "
            f"not {train.precision}"
        )
    options = train.zero
    of = _shares(model, train.adaptation, train.lora_rank, train.world_size, options.reduce_bucket, options.persistence_threshold)
    flat = Weight("share", (of.share,), 1, False, False, True, FP32_BYTES)
    kept = states(train.optimizer, [flat], FP32_BYTES, device_steps=train.optimizer == "adamw_fused")
    if train.sharding == "zero0":
        return _stage0(train, whole, of)
    terms, host = _terms(train, whole, of, kept), kept.host_bytes
    if train.offload != "none":
        terms, _ = moved_out(terms, "optimizer_states")
        host += kept.device_bytes + _master_on_host(train, of, pinned_bytes if cuda else int)
    if train.sharding == "zero3":
        return _stage3(train, whole, of, kept, terms, host)
    return _stages_1_and_2(train, whole, of, kept, terms, host + (_on_the_way(train, of, pinned_bytes if cuda else int)))


def _master_on_host(train: TrainSpec, of: _Shares, kept: Callable[[int], int]) -> int:
    """The fp32 copy, its gradients, and a share in the weights' dtype: of gradients in stage 3, of weights on their way back before it.

    `kept`: what the host's allocator makes of bytes. Stage 3 does not pin its copy, and has gradients by sub-group.
    """
    share = kept(train.weight_bytes * of.share)
    if train.sharding != "zero3":
        return 2 * kept(FP32_BYTES * of.share) + share
    groups = [SUB_GROUP] * (of.share // SUB_GROUP) + [of.share % SUB_GROUP]
    return FP32_BYTES * of.share + sum(kept(FP32_BYTES * group) for group in groups) + share


def _on_the_way(train: TrainSpec, of: _Shares, kept: Callable[[int], int]) -> int:
    """Of the largest gradient; with several micro-batches each tensor's sum waits there too."""
    if train.offload == "none":
        return 0
    summed = train.weight_bytes * max(of.own_first, of.own_last) if train.accumulation > 1 else 0
    return kept(train.weight_bytes * of.largest) + summed


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


def _terms(train: TrainSpec, whole: Residents, of: _Shares, kept: States) -> tuple[Term, ...]:
    """Weights, all of one dtype, and what the share's update keeps."""
    plain = _adapters_cast(train, tuple(term for term in whole.terms if term.category != "optimizer_states"))
    master = Term("master copy of the share", ANY, "optimizer_states", FP32_BYTES * of.share, "4·S", DEEPSPEED)
    moments = Term("optimizer states of the share", ANY, "optimizer_states", kept.device_bytes, f"{kept.formula}, of S weights",
                   f"the slot optimizer: {train.optimizer}")  # fmt: skip
    return (*plain, master, moments)


def _bucket(train: TrainSpec, category: str) -> Term:
    copies = 2 if train.sharding != "zero3" and train.zero.overlap_comm == "on" else 1
    size = copies * train.zero.reduce_bucket * train.weight_bytes
    return Term("bucket to reduce", ANY, category, size, "e·B, B: reduce_bucket_size", DEEPSPEED)


def _gradients(name: str, size: int, formula: str) -> Term:
    return Term(name, ANY, "gradients", size, formula, DEEPSPEED)


def _updates(
    train: TrainSpec, terms: tuple[Term, ...], ready: Term, parts: tuple[int, int], kept: States
) -> Mapping[str, tuple[Term, ...]]:
    """`ready`: own gradients, as the backward leaves them. `parts`: elements updated at once, and of the largest single tensor."""
    if train.offload != "none":
        return {"update on the host": terms}
    size, (at_once, single) = train.weight_bytes, parts
    norm = Term("a gradient in fp64, for its norm", ANY, "temporaries", FP64_BYTES * single, "8·the largest", DEEPSPEED)
    flat = Term("gradients laid flat", ANY, "temporaries", size * at_once, "e·S", DEEPSPEED)
    cast = Term(
        "gradients of the master copy", ANY, "temporaries", FP32_BYTES * at_once if size < FP32_BYTES else 0, "4·S", DEEPSPEED
    )
    master = Term("gradients of the master copy", ANY, "temporaries", FP32_BYTES * at_once, "4·S", DEEPSPEED)
    update = Term("update", ANY, "temporaries", kept.update_bytes, kept.update_formula, f"the slot optimizer: {train.optimizer}")
    stays = (ready,) if train.sharding == "zero3" else ()
    return {
        "norm of the gradients": (*terms, ready, norm),
        "gradients laid flat and cast": (*terms, ready, flat, cast),
        "update": (*terms, *stays, master, update),
    }


def _stages_1_and_2(train: TrainSpec, whole: Residents, of: _Shares, kept: States, terms: tuple[Term, ...], host: int) -> Sharding:
    size = train.weight_bytes
    on_host = train.offload != "none"
    if on_host:
        extra = Term("gradient on its way to the host", ANY, "other_residents", size * of.largest, "e·the largest", DEEPSPEED)
        terms = (*terms, extra)
    own_bytes = 0 if on_host else size * max(of.own_first, of.own_last)
    own = _gradients("gradients of the share's tensors", own_bytes, "e·S and the rest of divided tensors")
    updates = moments_of(_updates(train, terms, own, (of.share, min(of.largest, of.share)), kept))
    if train.sharding == "zero1" and train.zero.overlap_comm != "on":
        bucket = _bucket(train, "temporaries")
        left = size * (of.learned - of.first_fill)
        full = _gradients("gradients not yet in the bucket", left, "e·P - e·B")
        first = replace(own, size_bytes=0 if on_host else size * of.own_first)
        ends = moments_of({"own gradients copied out": (*terms, full, bucket, first)}, "backward")
        return Sharding(
            replace(whole, terms=terms, gradients=_adapters_cast(train, whole.gradients), host_bytes=host),
            (*ends, *updates),
            {"backward:loss": (), "backward": (bucket,), "last": (bucket,)},
            Leaves.WHOLE,
        )
    buffers = (_bucket(train, "gradients"), own)
    waits = _gradients("last layer's gradient, larger than the bucket", size * of.head, "e·V·h")
    after_loss = (*buffers, waits) if of.head > train.zero.reduce_bucket else buffers
    during = {"backward:loss": (), "backward:last norm": after_loss, "backward": buffers, "last": buffers}
    return Sharding(replace(whole, terms=terms, gradients=(own,), host_bytes=host), updates, during, Leaves.NOTHING)


def _stage3(train: TrainSpec, whole: Residents, of: _Shares, kept: States, terms: tuple[Term, ...], host: int) -> Sharding:
    size, ranks, options = train.weight_bytes, train.world_size, train.zero
    terms = shared_out(terms, ranks, "parameters")
    if train.offload == "parameters":
        terms, moved = moved_out(terms, "parameters")
        host += moved
    own = _gradients("gradients of the share", 0 if train.offload != "none" else size * of.share, "e·S, kept")
    copied_whole = ranks > 1 or train.offload == "parameters"
    small = Term("weights never divided", ANY, "parameters", size * of.kept_whole * copied_whole,
                 "e·those up to the persistence threshold", DEEPSPEED)  # fmt: skip
    terms = (*terms, small, _bucket(train, "gradients"))

    def gathered(elements: int) -> Term:
        ahead = min(of.divided, elements + options.prefetch_bucket) * copied_whole
        return Term(
            "gathered weights", ANY, "parameters", size * ahead, "e·(those used again soon + prefetch_bucket_size)", DEEPSPEED
        )

    updates = moments_of(
        _updates(train, terms, own, (min(SUB_GROUP, of.share), -(-of.largest // ranks)), _of_group(train, of, kept))
    )
    turning = gathered(of.turning)
    copied = min(of.learned, options.reduce_bucket)
    laid = Term("bucket laid out by rank", ANY, "temporaries", size * copied, "e·B", DEEPSPEED)
    waits = _gradients("last layer's gradient, larger than the bucket", size * of.head, "e·V·h")
    after_loss = (turning, waits) if of.head > options.reduce_bucket else (turning, laid)
    during = {
        "forward": (turning,),
        "loss": (turning,),
        "backward:loss": (turning,),
        "backward:last norm": after_loss,
        "backward": (turning, laid),
        "last": (gathered(of.embedding), laid),
    }
    return Sharding(replace(whole, terms=(*terms, own), gradients=(), host_bytes=host), updates, during, Leaves.NOTHING)


def _of_group(train: TrainSpec, of: _Shares, kept: States) -> States:
    """What an update makes of one sub-group at a time."""
    if of.share <= SUB_GROUP:
        return kept
    group = Weight("sub-group", (SUB_GROUP,), 1, False, False, True, FP32_BYTES)
    return states(train.optimizer, [group], FP32_BYTES, device_steps=train.optimizer == "adamw_fused")
