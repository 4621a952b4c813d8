"""torch's fully_shard (FSDP2): weights, gradients and states divided, and the buffers that put a unit together and take it apart again.

Read off `torch/distributed/fsdp/_fully_shard` (`_fsdp_param_group.py`, `_fsdp_collectives.py`). Units are the layers, and by the slot

    fsdp2              the embedding, and the last norm with the last layer
    fsdp2_root_unit    one for all that is in no layer; so it is in `fsdp2` too where the embedding is the last layer's weight
    fsdp2_kept         as fsdp2, and what was gathered in the forward stays until the backward has used it

With W for the weights of a unit and e for bytes of a number computed with: before a unit runs, its gathered buffer and the unit made of it
are there (2·W·e); in the forward the buffer stays until the next unit has been made of its own, so three are there for a moment. In the
backward the buffer of the unit that comes next is there while one runs, and the buffer whose gradients are being sent until the next is
full. Gradients are sent in the dtype computed in (`reduce_dtype`), and what arrives has the shards' dtype. A single rank has no gathered
buffers: its units are copied from the shards (`FSDPParamGroup.wait_for_unshard`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bench.plan.optimizers import States, states
from bench.plan.pinning import Pinning
from bench.plan.residents import ANY, Residents, paged, updated_on_host
from bench.plan.shares import Leaves, Sharding, moments_of, moved_out, one_of, shared_out
from bench.plan.spec import ModelSpec, PlanError, TrainSpec
from bench.plan.terms import Away, Term
from bench.plan.weights import Weight, kept_bytes, weights

FSDP = "torch.distributed.fsdp, fully_shard"


@dataclass(frozen=True, slots=True)
class _Unit:
    """Weights that are gathered together, in elements."""

    name: str
    weights: int
    learned: int


def fully_sharded(model: ModelSpec, train: TrainSpec, whole: Residents, *, gloo: bool) -> Sharding:
    """`gloo`: ranks on CPUs, whose library copies what it sends. Raises PlanError for a precision that is not modelled under it."""
    if train.precision not in ("bf16_master", "bf16_pure", "fp32"):
        raise PlanError(
            f"under {train.sharding} precision is bf16_master (fp32 shares, computing in bf16), bf16_pure or fp32, not {train.precision}"
        )
    ranks = train.world_size
    shard_bytes = train.master_bytes or train.weight_bytes
    every = weights(model, train)
    terms, gradients, update, kept = _shards(train, whole, every, shard_bytes)
    share = (shard_bytes, train.weight_bytes * ranks)
    away = paged(kept, train)
    if train.offload == "parameters":
        terms = moved_out(moved_out(terms, "parameters"), "optimizer_states")
        away = (*_on_host(train, every, shard_bytes, cuda=not gloo), *updated_on_host(train, kept), *away)
        gradients, update, share = (), (), (0, 1)
    together = train.sharding == "fsdp2_root_unit" or model.tied_embeddings
    during = _during(model, train, every, together=together, shard_bytes=shard_bytes, gloo=gloo)
    updates = moments_of({"update": (*terms, *gradients, *update)})
    shown = replace(whole, terms=terms, gradients=gradients, away=away)
    return Sharding(shown, updates, during, Leaves.SHARES, share, together)


def _shards(
    train: TrainSpec, whole: Residents, every: tuple[Weight, ...], shard_bytes: int
) -> tuple[tuple[Term, ...], tuple[Term, ...], tuple[Term, ...], States]:
    """Residents, gradients and the update's own of each rank, and its states. A weight is divided by its rows."""
    ranks, size = train.world_size, train.weight_bytes
    rows = [_divided(weight, ranks) for weight in every if weight.learns]
    kept = states(train.optimizer, rows, shard_bytes, device_steps=train.optimizer == "adamw_fused")
    wide = tuple(
        replace(term, size_bytes=term.size_bytes * shard_bytes // size) if term.category == "parameters" else term
        for term in whole.terms
        if term.category != "optimizer_states"
    )
    terms = shared_out(wide, ranks, "parameters")
    source = f"the slot optimizer: {train.optimizer}"
    moments = Term("optimizer states of the share", ANY, "optimizer_states", kept.device_bytes, one_of(ranks, kept.formula), source)
    gradients = tuple(replace(t, size_bytes=t.size_bytes * shard_bytes // size) for t in whole.gradients)
    update = Term("update", ANY, "temporaries", kept.update_bytes, one_of(ranks, kept.update_formula), source)
    return (*terms, moments), shared_out(gradients, ranks, "gradients"), (update,), kept


def _divided(weight: Weight, ranks: int) -> Weight:
    return replace(weight, shape=(-(-weight.shape[0] // ranks), *weight.shape[1:]))


def _on_host(train: TrainSpec, every: tuple[Weight, ...], shard_bytes: int, *, cuda: bool) -> Iterator[Away]:
    """Shares of weights and of gradients, each tensor's pinned by itself (`_fsdp_param.py`, and copies that wait for nobody)."""
    pinning, rows = Pinning(cuda=cuda), [_divided(weight, train.world_size) for weight in every]
    for name, chosen in (("weights", rows), ("gradients", [weight for weight in rows if weight.learns])):
        sizes = [
            kept_bytes(weight, train.linear) * shard_bytes // train.weight_bytes for weight in chosen for _ in range(weight.count)
        ]
        yield pinning.away(f"{name}, one by one", sizes, f"{shard_bytes} bytes each, of each tensor's share", FSDP)


def _units(model: ModelSpec, every: tuple[Weight, ...]) -> tuple[_Unit, _Unit, _Unit]:
    """The embedding, a layer, the end."""

    def unit(name: str, chosen: list[tuple[Weight, int]]) -> _Unit:
        return _Unit(
            name,
            sum(weight.elements * count for weight, count in chosen),
            sum(weight.elements * count for weight, count in chosen if weight.learns),
        )

    return (
        unit("the embedding", [(weight, 1) for weight in every if weight.name == "embedding"]),
        unit("a layer", [(weight, weight.count // model.layers) for weight in every if weight.block]),
        unit("the end", [(weight, 1) for weight in every if not weight.block and weight.name != "embedding"]),
    )


def _during(
    model: ModelSpec, train: TrainSpec, every: tuple[Weight, ...], *, together: bool, shard_bytes: int, gloo: bool
) -> Mapping[str, tuple[Term, ...]]:
    embedding, layer, end = _units(model, every)
    size = train.compute_bytes
    of = _Buffers(size, size if shard_bytes == size else size + shard_bytes, train.world_size, gloo)
    if train.sharding == "fsdp2_kept":
        return _kept(of, embedding, layer, end, model.layers)
    if together:
        return _with_root(of, _Unit("the root", embedding.weights + end.weights, embedding.learned + end.learned), layer)
    return _by_unit(of, embedding, layer, end)


@dataclass(frozen=True, slots=True)
class _Buffers:
    """Terms of units by what is done with them."""

    size: int
    """Bytes of a number computed with."""
    arriving: int
    """Bytes that arrive for each number of a share: as it was sent, and once more where it is cast."""
    ranks: int
    gloo: bool

    def made(self, unit: _Unit) -> Term:
        """They come and go, so a measured peak has them among its temporaries."""
        return Term(f"weights of {unit.name}", ANY, "temporaries", self.size * unit.weights, "W·e", FSDP)

    def gathered(self, unit: _Unit) -> Term:
        """A single rank copies its shards to where the unit is made."""
        size = self.size * unit.weights if self.ranks > 1 else 0
        return Term(f"gathered buffer of {unit.name}", ANY, "temporaries", size, "W·e", FSDP)

    def sent(self, unit: _Unit) -> Term:
        return Term(f"gradients of {unit.name}, being sent", ANY, "temporaries", self.size * unit.learned, "W·e", FSDP)

    def scattered(self, unit: _Unit) -> tuple[Term, ...]:
        """Whole gradients, the buffer that they are laid into, and the share that comes back."""
        gradients = Term(f"gradients of {unit.name}", ANY, "gradients", self.size * unit.learned, "W·e", FSDP)
        share = -(-self.arriving * unit.learned // self.ranks)
        back = Term(f"share of the gradients of {unit.name}", ANY, "temporaries", share, f"W·{self.arriving}/{self.ranks}", FSDP)
        copied = (
            (replace(self.sent(unit), name=f"gloo's copy of the gradients of {unit.name}"),) if self.gloo and self.ranks > 1 else ()
        )
        return gradients, self.sent(unit), back, *copied


def _by_unit(of: _Buffers, embedding: _Unit, layer: _Unit, end: _Unit) -> dict[str, tuple[Term, ...]]:
    running, ending = (of.made(layer), of.gathered(layer)), (of.made(end), of.gathered(layer))
    return {
        "gather:first layer": (of.gathered(embedding), *running, of.gathered(layer)),
        "gather:layer": (*running, of.gathered(layer)),
        "forward:layer": running,
        "gather:last norm": (*ending, of.gathered(end)),
        "forward": (of.made(end), of.gathered(end)),
        "loss": (of.made(end), of.gathered(end)),
        "gather:loss": (of.made(end), of.gathered(end)),
        "backward": ending,
        "scatter:last norm": (of.gathered(layer), *of.scattered(end)),
        "backward:last layer": (*running, of.sent(end)),
        "backward:layer": (*running, of.sent(layer)),
        "backward:first layer": (of.made(layer), of.gathered(embedding), of.sent(layer)),
        "scatter:layer": (of.gathered(layer), *of.scattered(layer)),
        "last": (of.made(embedding), of.sent(layer)),
        "scatter:embedding": of.scattered(embedding),
    }


def _with_root(of: _Buffers, root: _Unit, layer: _Unit) -> dict[str, tuple[Term, ...]]:
    """What is in no layer is whole from the first to the last moment; its gradients are sent last."""
    whole = of.made(root)
    running = (whole, of.made(layer), of.gathered(layer))
    return {
        "gather:first layer": (of.gathered(root), *running),
        "gather:layer": (*running, of.gathered(layer)),
        "forward:layer": running,
        "forward": (whole, of.gathered(layer)),
        "loss": (whole, of.gathered(layer)),
        "gather:loss": (whole, of.gathered(root)),
        "backward": (whole, of.gathered(layer)),
        "backward:last layer": running,
        "backward:layer": (*running, of.sent(layer)),
        "backward:first layer": (whole, of.made(layer), of.sent(layer)),
        "scatter:layer": (whole, of.gathered(layer), *of.scattered(layer)),
        "last": (whole, of.sent(layer)),
        "scatter:embedding": of.scattered(root),
    }


def _kept(of: _Buffers, embedding: _Unit, layer: _Unit, end: _Unit, layers: int) -> dict[str, tuple[Term, ...]]:
    """Nothing is gathered in the backward. Weights are counted as at the end of the forward throughout: there the peak is."""
    total = embedding.weights + layers * layer.weights + end.weights
    whole = replace(of.made(layer), name="weights kept gathered", category="parameters", size_bytes=of.size * total, formula="P·e")
    return {
        "forward": (whole, of.gathered(layer)),
        "loss": (whole, of.gathered(end)),
        "backward": (whole,),
        "scatter:last norm": (whole, *of.scattered(end)),
        "backward:last layer": (whole, of.sent(end)),
        "backward:layer": (whole, of.sent(layer)),
        "scatter:layer": (whole, *of.scattered(layer)),
        "last": (of.made(embedding), of.sent(layer)),
        "scatter:embedding": of.scattered(embedding),
    }
