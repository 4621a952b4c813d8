"""The driver of DeepSpeed's engine: it owns gradients, loss scaling, clipping and the update.

What the engine is given is what any other step gets: the filled model, and the optimizer of the slot. Its own gradient hooks run in the
backward and its update frees what they left, so a backward without an update is not something that it knows: `drop_gradients` updates.

On a CPU the engine would compile an operator for collectives in shared memory when it starts, for forty seconds and in the trial. That
one is left out (`shm_comm: False` among the facts), and gloo does what it would do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bench.records import Scalar
from bench.workloads.offloading._files import StatesFolder
from bench.workloads.precision import Numerics
from bench.workloads.sharding import _group
from bench.workloads.sharding._bytes import plain_tensors, stored_bytes
from bench.workloads.sharding._config import configuration, resolved
from bench.workloads.sharding._holdings import LOOKED_AT_STEPS, findings_of, promise_of, state_tensors
from bench.workloads.sharding._module import loss_module
from bench.workloads.sharding._promise import EVERYTHING, Held, Promise
from bench.workloads.train_step._driver import Driver, Parts

if TYPE_CHECKING:
    import torch

SHARED: Mapping[int, frozenset[str]] = {0: frozenset(), 1: EVERYTHING - {"weights"}, 2: EVERYTHING - {"weights"}, 3: EVERYTHING}
"""Stage to what is shared out when the backward is over. Stage 1 has whole gradients until then, and keeps its part of them as stage 2."""
ALIGNED_TO = 2
"""Elements for each rank, to a multiple of which flat lists of weights are padded in stages 1 and 2."""
MOST_SCALES = 200
"""Changes of a dynamic scale that are written down."""
PERSISTENCE_THRESHOLD = 100_000
"""DeepSpeed's default of stage3_param_persistence_threshold."""


def join(device: torch.device) -> None:
    """The group, and what DeepSpeed asks of the environment before it is imported."""
    _group.join(device)
    os.environ["DS_ACCELERATOR"] = device.type
    os.environ.setdefault("LOCAL_RANK", "0")
    if device.index is not None:
        os.environ["LOCAL_RANK"] = str(device.index)
    import deepspeed

    if device.type == "cpu":
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


class EngineUpdate:
    """The engine's update, as a step asks for it."""

    scaler = None
    """DeepSpeed's own scales losses within the engine."""

    def __init__(self, engine: Any, learned: list[Any], numerics: Numerics) -> None:
        self.engine = engine
        self.learned = learned
        self.numerics = numerics
        self.scales: list[tuple[int, float]] = [(0, self.scale)]
        """Steps taken, and the loss's scale from then on; only of a dynamic one more than the first."""

    @property
    def optimizer(self) -> Any:
        """The slot's own optimizer, whose tensors the engine has exchanged for its partitions."""
        return self.engine.basic_optimizer

    @property
    def masters(self) -> list[torch.Tensor]:
        """The flat fp32 tensors that are updated, where they are not the weights themselves (stage 0 in fp32)."""
        zero = self.engine.optimizer
        for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups"):
            if hasattr(zero, name):
                # What lies elsewhere just now, in files or as partitions, has no memory and so no address of its own.
                weights = {tensor.untyped_storage().data_ptr() for tensor in held_weights(self.engine.module)} - {0}
                found = plain_tensors(getattr(zero, name))
                return [tensor for tensor in found if tensor.untyped_storage().data_ptr() not in weights]
        return []

    @property
    def scales_dynamically(self) -> bool:
        return bool(getattr(self._scaling(), "dynamic_loss_scale", False))

    def _scaling(self) -> Any:
        """What holds the loss's scale: the engine's optimizer, or in stage 0 a record of it."""
        return getattr(self.engine.optimizer, "loss_scale_config", self.engine.optimizer)

    def outside_the_optimizer(self) -> tuple[int, int]:
        """How many of the tensors that are to be updated have no state after the first update, and how many there are."""
        updated = self.masters or self.learned
        return sum(not self.optimizer.state.get(tensor) for tensor in updated), len(updated)

    @property
    def scale(self) -> float:
        return float(self._scaling().cur_scale) if self.scales_dynamically else 1.0

    @property
    def skipped_steps(self) -> int:
        return int(self.engine.skipped_steps)

    def clear_gradients(self) -> None:
        """Nothing: the engine's update has cleared them."""

    def step(self) -> None:
        """The engine's; a scale that is another one afterwards is written down."""
        self.engine.step()
        if self.scales_dynamically and self.scale != self.scales[-1][1] and len(self.scales) < MOST_SCALES:
            self.scales.append((int(self.engine.global_steps), self.scale))


class Engine(Driver):
    """`deepspeed.initialize` on the loss of a batch as a module."""

    whole = False

    def __init__(self, parts: Parts, *, stage: int) -> None:
        import deepspeed

        self.parts = parts
        self.whole_weights = stage < 3
        self.judged = stage > 0 or parts.numerics.weights == "fp32"
        self.rank, self.ranks = _group.rank(), _group.ranks()
        learned = parts.learned
        self._stage = stage
        self._promise = _promise(parts, stage, self.ranks)
        self._module = loss_module(parts)
        self._folder = StatesFolder() if parts.offloading.states == "nvme" else None
        config = configuration(parts, stage, nvme_folder=None if self._folder is None else str(self._folder.path))
        optimizer = parts.recipe(list(learned))
        self.engine, _, _, _ = deepspeed.initialize(model=self._module, optimizer=optimizer, config=config)
        self.update = EngineUpdate(self.engine, learned, parts.numerics)
        self._gradient_bytes: int | None = None
        self._looks_left = LOOKED_AT_STEPS * parts.spec.accumulation

    def forward(self, micro_batch: Mapping[str, torch.Tensor], begin: Callable[[str], None]) -> torch.Tensor:
        self._module.begin = begin
        loss: torch.Tensor = self.engine(**micro_batch)
        return loss

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        self.engine.set_gradient_accumulation_boundary(is_boundary=last)
        return contextlib.nullcontext()

    def backward(self, loss: torch.Tensor) -> None:
        self.engine.backward(loss, scale_wrt_gas=False)
        if self._looks_left:  # only in the first steps, which are not timed
            self._looks_left -= 1
            self._gradient_bytes = stored_bytes(self._gradients())

    def gradients(self) -> None:
        """Its stages keep them in lists of their own, with padding, and partly those of other ranks' weights."""

    def told_norm(self) -> float | None:
        """Of ZeRO's stages; of the optimizers that the engine has without ZeRO one takes no scale off, and one tells none."""
        norm = self.engine.get_global_grad_norm() if self._stage else None
        return None if norm is None else float(norm)

    def drop_gradients(self) -> None:
        self.engine.step()

    @contextlib.contextmanager
    def noting_learners(self, names: set[str]) -> Iterator[None]:
        handles = []
        for name, weight in self.parts.model.named_parameters():
            if weight.requires_grad:
                handles.append(weight.register_hook(lambda gradient, name=name: names.add(name)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def mean(self, loss: torch.Tensor | float) -> float:
        return _group.mean_of_ranks(float(loss))

    def _gradients(self) -> list[torch.Tensor]:
        """Wherever the stage keeps them between backward and update."""
        zero = self.engine.optimizer
        averaged = getattr(zero, "averaged_gradients", None) or {}
        flat = [getattr(found, "flat_partition", None) for found in averaged.values()]
        weights = self.parts.model.parameters()
        own = [getattr(weight, name, None) for weight in weights for name in ("grad", "grad_accum")]
        buffer = getattr(zero, "grad_partitions_flat_buffer", None)
        offloaded = [master.grad for master in self.update.masters]
        return [tensor for tensor in (*own, *flat, buffer, *offloaded, *_flattened(averaged)) if tensor is not None]

    def holdings(self) -> dict[str, Sequence[torch.Tensor]]:
        return {
            "parameters": [*held_weights(self._module), *self.parts.model.buffers()],
            "gradients": self._gradients(),
            "optimizer_states": [*self.update.masters, *state_tensors(self.update.optimizer)],
        }

    def findings(self) -> dict[str, float]:
        found = findings_of(self._held(), [*self.update.masters, *self.update.optimizer.state.values()], self.parts.device)
        return found if self._folder is None else found | {"disk_bytes": float(self._folder.stored_bytes())}

    def close(self) -> None:
        if self._folder is not None:
            self._folder.remove()

    def release(self) -> None:
        """Hooks of an engine keep all of it alive, in stage 3 a reduce bucket of a gigabyte too, which would be in later peaks."""
        self.engine.destroy()
        self.close()

    def facts(self) -> dict[str, Scalar]:
        """The settings that DeepSpeed came to, what it shares out, and how the loss's scale went."""
        import deepspeed

        scales = {"loss_scale_history": json.dumps(self.update.scales)} if self.update.scales_dynamically else {}
        return {
            **scales,
            "deepspeed": deepspeed.__version__,
            **resolved(self.engine),
            **self._promise.facts(),
            "deepspeed_optimizer": type(self.engine.optimizer).__name__,
            "shm_comm": bool(deepspeed.ops.__compatible_ops__.get("deepspeed_shm_comm", False)),
        }

    def _held(self) -> Held:
        return Held(
            weights=stored_bytes(held_weights(self._module)),
            gradients=self._gradient_bytes,
            masters=stored_bytes(self.update.masters),
            states=stored_bytes(self.update.optimizer.state.values()),
        )

    def missing(self) -> str | None:
        """Offloaded states take their gradients along, in fp32; of states that pass between files and memory none are promised there."""
        held = self._held()
        if self.parts.offloading.states != "none":
            held = dataclasses.replace(held, gradients=None)
        if self._folder is not None:
            held = dataclasses.replace(held, masters=None, states=None)
        return self._promise.broken_by(held)


def held_weights(module: Any) -> list[torch.Tensor]:
    """Of stage 3 the partitions, with what is gathered or whole besides."""
    weights = list(module.parameters())
    return [*weights, *(weight.ds_tensor for weight in weights if hasattr(weight, "ds_tensor"))]


def _promise(parts: Parts, stage: int, ranks: int) -> Promise:
    """What is left of the model on this rank.

    ZeRO copies even fp32 weights. In stages 1 and 2 both ranks keep the whole gradient of a weight that their parts divide.
    """
    learned = parts.learned
    numerics = dataclasses.replace(parts.numerics, master="fp32") if stage else parts.numerics
    if stage < 3:
        padding = ALIGNED_TO * ranks
        edges = 2 * max(weight.numel() for weight in learned) if stage else 0
        uneven = {**dict.fromkeys(EVERYTHING, padding), "gradients": padding + edges}
    else:
        kept = parts.spec.zero.persistence_threshold if parts.spec.zero is not None else PERSISTENCE_THRESHOLD
        small = sum(weight.numel() for weight in parts.model.parameters() if weight.numel() <= kept)
        uneven = {**dict.fromkeys(EVERYTHING, len(learned)), "weights": len(learned) + small}
    cast = parts.numerics.weights if parts.numerics.weights != "fp32" else None  # adapters too, which come in fp32
    return promise_of(parts, numerics, SHARED[stage], uneven, all_in=cast)


def _flattened(averaged: Mapping[int, Any]) -> Iterator[torch.Tensor]:
    for found in averaged.values():
        yield from (found if isinstance(found, list | tuple) else [])
