"""What a sharding changes for each GPU, by the slot `sharding`: alone, DDP here, DeepSpeed in `zero.py`, fully_shard in `fsdp.py`.

Every rank need not hold the same: what is told is the rank that needs most. One rank is a number of ranks too: nothing is shared out, and
what remains is what an engine makes for itself; that is how offloading works on one GPU.
"""

from __future__ import annotations

from dataclasses import replace

from bench.plan.ao_offload import states_on_host
from bench.plan.fsdp import fully_sharded
from bench.plan.residents import Residents
from bench.plan.shares import Leaves, Sharding
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.zero import zero

DDP = "torch DistributedDataParallel"


def sharded(model: ModelSpec, train: TrainSpec, whole: Residents, *, cuda: bool) -> Sharding:
    """From the residents of one device that holds all. Raises PlanError for a precision that the library does not train so."""
    if train.sharding == "none":
        residents = states_on_host(model, train, whole, cuda=cuda) if train.offload == "optimizer_ao" else whole
        return Sharding(residents, tuple(residents.updates()), {}, Leaves.WHOLE)
    if train.sharding == "ddp":
        return _ddp(whole)
    if train.sharding.startswith("fsdp2"):
        return fully_sharded(model, train, whole, gloo=not cuda)
    return zero(model, train, whole, cuda=cuda)


def _ddp(whole: Residents) -> Sharding:
    """Gradients are views of the buckets (`gradient_as_bucket_view`), which stay when their gradients are let go of."""
    buckets = tuple(replace(term, source=f"buckets of {DDP}") for term in whole.gradients)
    shown = replace(whole, terms=(*whole.terms, *buckets), gradients=())
    return Sharding(shown, tuple(shown.updates()), {}, Leaves.NOTHING)
