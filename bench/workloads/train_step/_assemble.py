"""Makes the step of a spec: the decoder, what fills its slots in the only order that works, the update.

adaptation     says which weights learn, while the layers are still plain
norms, mlps    replace modules, so that what follows finds the linear layers where they will be
linear, qat    convert the linear layers, those below adapters too
checkpointing  wraps each layer as it then is
compile        traces all of it, checkpoints too
sharding       shares the whole among ranks, with the update
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bench.declare import Implementation, Unsupported
from bench.workloads.optimizer._recipe import OptimizerSpec
from bench.workloads.precision import Numerics
from bench.workloads.train_step._change import kept_apart
from bench.workloads.train_step._driver import Parts
from bench.workloads.train_step._fill import Filler
from bench.workloads.train_step._model import ADAPTERS_AFTER, INTERFACE, make_model, modeling
from bench.workloads.train_step._spec import RANDOM, TrainStepSpec
from bench.workloads.train_step._step import TrainingStep
from bench.workloads.train_step._stored import fill

if TYPE_CHECKING:
    import torch

CHANGES = ("adaptation", "qat", "checkpointing", "compile")
"""Slots that change the model, in the order of that."""


def assemble(
    spec: TrainStepSpec,
    implementations: Mapping[str, Implementation],
    seed: int,
    device: torch.device,
    stored: Callable[[str], torch.Tensor] | None = None,
) -> TrainingStep:
    """`stored` reads real weights by name, where the spec names some. Raises Unsupported, in words, for what cannot go together."""
    import torch

    _refuse_what_cannot_go_together(implementations)
    numerics: Numerics = implementations["precision"].builder(spec)
    sharding = implementations["sharding"].builder(spec)
    seed = sharding.common_seed(seed, device)
    model = make_model(spec, seed, device, numerics.weights, INTERFACE)
    if spec.weights != RANDOM:
        fill(model, spec.weights, stored)
    filler = Filler(spec, numerics, implementations, model)
    filler.attention()
    filler.norms()
    filler.mlps()
    torch.manual_seed(seed + ADAPTERS_AFTER)
    changes = {slot: implementations[slot].builder(spec) for slot in CHANGES}
    model = changes["adaptation"](model)
    filler.linears()
    for slot in ("qat", "checkpointing", "compile"):
        model = changes[slot](model)
    recipe = implementations["optimizer"].builder(OptimizerSpec(dtype=numerics.updated, lr=spec.lr))
    declared = [*(implementation.tolerance for implementation in implementations.values()), getattr(recipe, "tolerance", None)]
    parts = Parts(spec, numerics, model, filler.loss(), recipe, implementations["offloading"].builder(spec), device)
    return TrainingStep(
        spec,
        numerics,
        implementations,
        sharding.drive(parts),
        changes=changes,
        algorithm=getattr(recipe, "algorithm", "adamw"),
        tolerance=max((tolerance for tolerance in declared if tolerance is not None), default=None),
        seed=seed,
        modeling=modeling(spec.shape),
        rotation=filler.rotation(kept_apart=kept_apart(changes)),
    )


def _refuse_what_cannot_go_together(implementations: Mapping[str, Implementation]) -> None:
    names = {slot: implementation.name for slot, implementation in implementations.items()}
    if names["qat"] != "none" and names["linear"] != "plain":
        raise Unsupported(f"qat={names['qat']} prepares plain linear layers, and linear={names['linear']} has replaced them")
    if names["qat"] != "none" and names["adaptation"] != "full":
        raise Unsupported(f"qat={names['qat']} trains the weights themselves, which adaptation={names['adaptation']} freezes")
    if names["compile"] == "model" and names["checkpointing"] == "full_offloaded":
        raise Unsupported("torch.compile cannot trace the hooks that move activations to the host; compile: layer or none can")
