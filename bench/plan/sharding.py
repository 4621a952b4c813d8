"""What several GPUs change for each of them: shares of weights, gradients and states, and the buffers that move them about.

DDP keeps all of it and copies gradients into buckets. ZeRO is what DeepSpeed 0.19 allocates (`runtime/zero/stage_1_and_2.py`, `stage3.py`
and their defaults), which is more than the paper counts. FSDP2 is `torch.distributed.fsdp.fully_shard` by decoder layer, with embedding,
last norm and last layer in the root. These terms are read off sources and CPU runs; none has been checked on GPUs yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.plan.dims import Dims
from bench.plan.residents import ANY, Residents
from bench.plan.spec import ModelSpec, PlanError, TrainSpec
from bench.plan.terms import Term
from bench.plan.weights import weights

REDUCE_BUCKET = 500_000_000
"""Elements, DeepSpeed's `reduce_bucket_size`."""
MOST_LIVE = 1_000_000_000
"""Elements of gathered weights, `stage3_max_live_parameters`."""
PREFETCHED = 50_000_000
"""Elements, `stage3_prefetch_bucket_size`."""
SUB_GROUP = 1_000_000_000
"""Elements that stage 3 updates at once, `sub_group_size`."""
DEEPSPEED, FSDP, DDP = "DeepSpeed 0.19, runtime/zero", "torch.distributed.fsdp, fully_shard", "torch DistributedDataParallel"


@dataclass(frozen=True, slots=True)
class Sharding:
    """What is resident on one GPU, and what comes on top in each phase."""

    residents: Residents
    during: Mapping[str, tuple[Term, ...]]
    keeps_gradients: bool
    """Whether gradients of whole layers stay until the update; else the share that stays is resident."""


def sharded(model: ModelSpec, train: TrainSpec, dims: Dims, whole: Residents) -> Sharding:
    """From the residents of one GPU that holds all. Raises PlanError for a precision that the library does not train so."""
    if train.sharding == "none":
        return Sharding(whole, {}, True)
    if train.sharding == "ddp":
        gradients = sum(term.size_bytes for term in whole.gradients)
        buckets = Term("buckets of gradients", ANY, "other_residents", gradients, "a copy of all gradients", DDP)
        return Sharding(replace(whole, terms=(*whole.terms, buckets)), {}, True)
    if train.sharding == "fsdp2":
        return _fsdp(model, train, whole)
    return _zero(model, train, whole, int(train.sharding[-1]))


def _share(terms: tuple[Term, ...], ranks: int, category: str) -> tuple[Term, ...]:
    """Terms of a category divided among ranks."""
    return tuple(
        replace(term, size_bytes=-(-term.size_bytes // ranks), formula=f"({term.formula})/{ranks}")
        if term.category == category
        else term
        for term in terms
    )


def _moved(terms: tuple[Term, ...], category: str) -> tuple[tuple[Term, ...], int]:
    """Without those of a category, and their bytes."""
    return tuple(term for term in terms if term.category != category), sum(t.size_bytes for t in terms if t.category == category)


def _zero(model: ModelSpec, train: TrainSpec, whole: Residents, stage: int) -> Sharding:
    if train.precision not in ("bf16_master", "fp32"):
        raise PlanError(
            f"under ZeRO DeepSpeed trains with an fp32 copy or in fp32: use precision bf16_master or fp32, not {train.precision}"
        )
    ranks, size = train.world_size, train.weight_bytes
    learned = sum(term.size_bytes for term in whole.gradients) // size
    terms, host = _share(whole.terms, ranks, "optimizer_states"), whole.host_bytes
    bucket = min(train.reduce_bucket or REDUCE_BUCKET, learned) * size
    gradients = whole.gradients
    buffers: dict[str, tuple[Term, ...]] = {
        "backward": (Term("bucket to reduce", ANY, "temporaries", bucket, "reduce_bucket_size", DEEPSPEED),)
    }
    if stage >= 2:
        gradients = _share(gradients, ranks, "gradients")
    if stage == 3:
        every = sum(weight.total for weight in weights(model, train))
        live = min(every, MOST_LIVE) * size + min(every, PREFETCHED) * size
        terms = _share(terms, ranks, "parameters")
        if train.offload == "parameters":
            terms, moved = _moved(terms, "parameters")
            host += moved
        gathered = Term("gathered weights", ANY, "parameters", live, "max_live_parameters + prefetch_bucket_size", DEEPSPEED)
        kept = Term("bucket to reduce", ANY, "other_residents", bucket, "reduce_bucket_size, kept", DEEPSPEED)
        terms = (*terms, kept)
        buffers = dict.fromkeys(("forward", "loss", "backward"), (gathered,))
    fp32 = 4 * min(SUB_GROUP, -(-learned // ranks)) if stage == 3 else 4 * -(-learned // ranks)
    cast: tuple[Term, ...] = (
        Term("fp32 gradients of the share", ANY, "gradients", fp32 if size < 4 else 0, "4 bytes a weight of the share", DEEPSPEED),
    )
    update = tuple(replace(term, size_bytes=-(-term.size_bytes // ranks)) for term in whole.update)
    if train.offload != "none":
        terms, moved = _moved(terms, "optimizer_states")
        host += moved + 4 * -(-learned // ranks)
        update, cast = (), ()
        gradients = () if stage >= 2 else gradients
    shown = replace(
        whole,
        terms=(*terms, *(gradients if stage >= 2 else ())),
        gradients=() if stage >= 2 else gradients,
        update=(*update, *cast),
        master_gradients=(),
        last_gradient=(),
        host_bytes=host,
    )
    return Sharding(shown, buffers, stage < 2)


def _fsdp(model: ModelSpec, train: TrainSpec, whole: Residents) -> Sharding:
    if train.precision not in ("bf16_master", "bf16_pure", "fp32"):
        raise PlanError(
            f"under fsdp2 precision is bf16_master (fp32 shares, computing in bf16), bf16_pure or fp32, not {train.precision}"
        )
    ranks, computed = train.world_size, train.compute_bytes
    every = weights(model, train)
    kept = train.master_bytes or train.weight_bytes
    terms = tuple(
        replace(t, size_bytes=t.size_bytes * kept // train.weight_bytes) if t.category == "parameters" else t for t in whole.terms
    )
    terms = tuple(term for term in terms if term.name != "master copy")
    terms = _share(_share(terms, ranks, "parameters"), ranks, "optimizer_states")
    gradients = tuple(
        replace(t, size_bytes=-(-t.size_bytes * kept // (train.weight_bytes * ranks)), formula=f"({t.formula})/{ranks}")
        for t in whole.gradients
    )
    unit = sum(weight.elements * (weight.count // model.layers) for weight in every if weight.block)
    learned_unit = sum(weight.elements * (weight.count // model.layers) for weight in every if weight.block and weight.learns)
    root = sum(weight.total for weight in every if not weight.block)
    learned_root = sum(weight.total for weight in every if not weight.block and weight.learns)
    reduced = max(kept, computed)
    gathered_root = Term("root unit, gathered", ANY, "parameters", root * computed, "e·(2·V·h + h)", FSDP)

    def layers(copies: int) -> Term:
        return Term("layers, gathered", ANY, "parameters", copies * unit * computed, f"{copies}·W·e of a layer", FSDP)

    scatter = Term("gradients to be scattered", ANY, "temporaries", learned_unit * reduced + learned_unit * reduced // ranks,
                   "W·r + W·r/N of a layer", FSDP)  # fmt: skip
    last = Term(
        "gradients of the root to be scattered",
        ANY,
        "temporaries",
        learned_root * (computed + reduced),
        "W·e + W·r of the root",
        FSDP,
    )
    host = whole.host_bytes
    if train.offload == "parameters":
        for category in ("parameters", "optimizer_states"):
            terms, moved = _moved(terms, category)
            host += moved
        host += sum(term.size_bytes for term in gradients)
        gradients = ()
    update = (
        tuple(replace(term, size_bytes=-(-term.size_bytes // ranks)) for term in whole.update) if train.offload == "none" else ()
    )
    shown = replace(
        whole, terms=(*terms, *gradients), gradients=(), update=update, master_gradients=(), last_gradient=(), host_bytes=host
    )
    during = {
        "forward": (gathered_root, layers(3)),
        "loss": (gathered_root, layers(1)),
        "backward": (gathered_root, layers(3), scatter),
        "last": (gathered_root, last),
    }
    return Sharding(shown, during, False)
