"""Stage 3 of ZeRO as DeepSpeed 0.19 allocates it (`runtime/zero/stage3.py`): weights too are shared out.

With S for the weights of a share, e for bytes of a weight and B for `reduce_bucket_size`: e·S of gradients and the bucket of e·B are
there from the start. What is gathered of the weights when is in `gathers.py`; a single rank uses its share as it lies, unless it lies on
the host. When the bucket is sent, its gradients are laid out by rank in a tensor of their own. Each tensor is divided among all ranks.

States on the host: each share of a gradient is copied to the GPU as the bucket is sent, where its norm is taken in fp64 (of 250 million
elements at a time), and it is made fp32 there; states on disk keep all of a bucket's in fp32 until the last of them is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.plan.buckets import EMBEDDING, END, Emptied, Gradient, emptied, in_order, modules
from bench.plan.gathers import Gathered, gathered
from bench.plan.on_disk import swapped
from bench.plan.optimizers import States, states
from bench.plan.pinning import Pinning
from bench.plan.residents import ANY, Residents, updated_on_host
from bench.plan.shares import Leaves, Sent, Sharding, moments_of, moved_out, shared_out
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.terms import HOST, Away, Term
from bench.plan.weights import Weight, weights
from bench.plan.zero_terms import DEEPSPEED, FP32_BYTES, FP64_BYTES, bucket, gradients, updates, used_twice, waiting

SUB_GROUP = 1_000_000_000
"""Elements of a share from which on a group of tensors is updated by itself, `sub_group_size`."""
PARTED = f"{DEEPSPEED}/partition_parameters.py"
NORM_OF = 250_000_000
"""Elements whose norm is taken at once (`_constant_buffered_norm2`)."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the engine's optimizer holds of a share, before the stage."""

    terms: tuple[Term, ...]
    kept: States
    away: tuple[Away, ...]
    """Off the GPU, of what the stages have in common."""
    share: int
    """Elements."""
    coming: tuple[Gradient, ...]


def stage3(model: ModelSpec, train: TrainSpec, whole: Residents, of: Shared, *, cuda: bool) -> Sharding:
    """`cuda`: whether what lies on the host is pinned, and copied to a device."""
    size, ranks = train.weight_bytes, train.world_size
    every = weights(model, train)
    tensors = in_order(model, every)
    shares = [-(-gradient.elements // ranks) for gradient in sorted(of.coming, key=lambda found: found.start)]
    groups = _groups(shares)
    terms, away, of_group = shared_out(of.terms, ranks, "parameters"), of.away, _of_group(train, max(groups), of.kept)
    if train.offload == "parameters":
        terms = moved_out(terms, "parameters")
    if train.offload == "optimizer_nvme":
        away = swapped(train, groups, shares, cuda=cuda)
    elif train.offload != "none":
        away = (*_on_host(train, tensors, groups, sum(shares), cuda=cuda), *updated_on_host(train, of_group), *away)
    own = gradients("gradients of the share", 0 if train.offload != "none" else size * of.share, "e·S, kept")
    copied = ranks > 1 or train.offload == "parameters"
    small = sum(weight.elements for weight in tensors if weight.elements <= train.zero.persistence_threshold)
    undivided = Term("weights never divided", ANY, "parameters", size * small * copied,
                     "e·those up to the persistence threshold", DEEPSPEED)  # fmt: skip
    terms = (*terms, undivided, bucket(train, "gradients"))
    ends = moments_of(updates(train, terms, own, (own, max(shares)), max(groups), of_group))
    there = _Places(train, _gathers(model, train, every, tensors) if copied else None, used_twice(model, train), model.layers)
    during = there.during()
    sent = []
    for step in emptied(of.coming, train.zero.reduce_bucket):
        alone = waiting(train, step)
        if step.place == model.layers:
            during["backward:last norm"] = (*during["backward:last norm"], *alone)
        sent.append(Sent(step.place, step.nth, (*there.at(step.place, step.module), *alone, *_sending(train, step, cuda=cuda))))
    shown = replace(whole, terms=(*terms, own), gradients=(), away=away)
    return Sharding(shown, ends, during, Leaves.NOTHING, sent=tuple(sent))


def _gathers(model: ModelSpec, train: TrainSpec, every: Sequence[Weight], tensors: Sequence[Weight]) -> Gathered:
    block = [weight.elements for weight in tensors[1:]]
    return gathered(
        tensors[0].elements,
        tuple(tuple(block[at] for at in own) for own in modules(model, every)),
        tuple(weight.elements for weight in every if not weight.block and weight.name != "embedding"),
        layers=model.layers,
        checkpoint_every=train.checkpoint_every,
        activation=train.swiglu == "eager",
        ranks=train.world_size,
        prefetch=train.zero.prefetch_bucket,
        threshold=train.zero.persistence_threshold,
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """What is gathered, and what waits, where in a step."""

    train: TrainSpec
    gathers: Gathered | None
    """None where weights are used as they lie."""
    twice: tuple[Term, ...]
    layers: int

    def _gathered(self, elements: int) -> Term:
        size = self.train.weight_bytes * elements
        return Term("gathered weights", ANY, "parameters", size, "e·(used, fetched ahead and kept)", DEEPSPEED)

    def at(self, place: int, module: int | None = None) -> tuple[Term, ...]:
        """In the backward: at its highest, or while one of a layer's modules runs."""
        twice = self.twice if place not in (EMBEDDING, END) else ()
        if self.gathers is None:
            return twice
        if place in (EMBEDDING, END):
            return (self._gathered(self.gathers.embedding),)
        if module is not None and place < self.layers:
            return self._gathered(self.gathers.used[place][module]), *twice
        after = (self.gathers.norm_backward, self.gathers.loss)
        return self._gathered((*self.gathers.backward, *after)[place]), *twice

    def during(self) -> dict[str, tuple[Term, ...]]:
        """By moment. Of layers those that can be the highest: behind each, where more is saved, less is gathered."""
        of, last = self.gathers, self.layers - 1
        if of is None:
            return {"backward:last norm": self.twice, "backward": self.twice, "backward:loss": (), "last": self.twice}
        norm, loss = (self._gathered(of.norm),), (self._gathered(of.loss),)
        found = {"forward": norm, "loss": loss, "backward:loss": loss, "backward:last norm": self.at(self.layers)}
        for index in {0, *_rising(of.forward)}:
            found[f"forward:{index}"] = (self._gathered(of.forward[index]),)
        for index in {0, *_rising(of.backward)}:
            found[f"backward:{index}"] = self.at(index)
        return {**found, "last": (self._gathered(of.embedding), *self.twice), "backward": self.at(last)}


def _rising(sizes: Sequence[int]) -> Iterable[int]:
    """From the last on, each that is more than all behind it."""
    most = -1
    for index in reversed(range(len(sizes))):
        if sizes[index] > most:
            most = sizes[index]
            yield index


def _groups(shares: Iterable[int]) -> list[int]:
    """Elements that are updated together: tensors in their order until there are `SUB_GROUP`."""
    groups, filled = [], 0
    for share in shares:
        filled += share
        if filled >= SUB_GROUP:
            groups.append(filled)
            filled = 0
    return [*groups, filled] if filled else groups


def _on_host(train: TrainSpec, tensors: Iterable[Weight], groups: Sequence[int], share: int, *, cuda: bool) -> Iterator[Away]:
    """The fp32 copy, which is not pinned, and what is: weights, gradients of the copy by group, and gradients in the weights' dtype.

    Weights that learn are pinned one by one as they are parted (`partition_parameters.py`), and copied into a flat buffer when the
    optimizer is made (`_create_fp16_partitions_with_defragmentation`); what they took first stays with the process.
    """
    size, pinning = train.weight_bytes, Pinning(cuda=cuda)
    if train.offload == "parameters":
        parted = [weight for weight in tensors if weight.elements > train.zero.persistence_threshold]
        learned, frozen = ([size * -(-weight.elements // train.world_size) for weight in parted if weight.learns == learns]
                           for learns in (True, False))  # fmt: skip
        yield pinning.away("weights, one by one", [*frozen, *(learned if cuda else ())], "e·each tensor's share", PARTED)
        yield pinning.away("weights laid flat", [size * share], "e·S", DEEPSPEED)
        pinning.give_back(learned)
    yield Away("fp32 copy of the share", HOST, FP32_BYTES * share, "4·S", DEEPSPEED)
    yield pinning.away("gradients of the fp32 copy", [FP32_BYTES * group for group in groups], "4·each group", DEEPSPEED)
    yield pinning.away("gradients of the share", [size * share], "e·S", DEEPSPEED)


def _of_group(train: TrainSpec, group: int, kept: States) -> States:
    """What an update makes of the largest group."""
    flat = Weight("sub-group", (group,), 1, False, False, True, FP32_BYTES)
    made = states(train.optimizer, [flat], FP32_BYTES, device_steps=train.optimizer == "adamw_fused")
    return replace(kept, update_bytes=made.update_bytes)


def _sending(train: TrainSpec, step: Emptied, *, cuda: bool) -> tuple[Term, ...]:
    """A single tensor that all ranks can divide evenly is sent as it lies."""
    size, ranks = train.weight_bytes, train.world_size
    shares = [-(-gradient.elements // ranks) for gradient in sorted(step.gradients, key=lambda found: found.start)]
    as_it_lies = len(shares) == 1 and step.elements % ranks == 0
    laid = Term("bucket laid out by rank", ANY, "temporaries", 0 if as_it_lies else size * ranks * sum(shares), "e·B", DEEPSPEED)
    if train.offload == "none":
        return (laid,)
    waits = highest = 0
    wide = FP32_BYTES if size < FP32_BYTES else 0
    for share in shares:
        copied = size * share * cuda
        highest = max(highest, waits + copied + max(FP64_BYTES * min(share, NORM_OF), wide * share))
        if train.offload == "optimizer_nvme":
            waits += wide * share or copied
    away = Term("gradients on their way to the host", ANY, "temporaries", highest, "e·one + 8·one for its norm", DEEPSPEED)
    return laid, away
