"""Drivers of what torch itself shares a step with: DistributedDataParallel and fully_shard (FSDP2). The update stays our own.

fully_shard keeps the weights that it was given as shards and may compute in another dtype. So where a step has 16-bit weights and an fp32
copy, the shards are that copy, and its mixed-precision policy casts each unit as it is gathered: the same numbers, and no second set of
weights. Gradients are reduced in the dtype computed in.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported, torch_dtype
from bench.records import Scalar
from bench.workloads.precision import Numerics
from bench.workloads.sharding import _group
from bench.workloads.sharding._bytes import stored_bytes
from bench.workloads.sharding._holdings import (
    LOOKED_AT_STEPS,
    findings_of,
    local_part,
    promise_of,
    refuse_offloading,
    state_tensors,
)
from bench.workloads.sharding._module import loss_module
from bench.workloads.sharding._promise import EVERYTHING, Held, Promise
from bench.workloads.train_step._driver import Driver, Parts
from bench.workloads.train_step._update import Update

if TYPE_CHECKING:
    import torch


class _Ranked(Driver):
    """What both have in common: a wrapped module, and a mean over ranks."""

    def __init__(self, parts: Parts, wrapped: Any, module: Any, update: Update, promise: Promise) -> None:
        super().__init__(parts, update)
        self.rank, self.ranks = _group.rank(), _group.ranks()
        self.promise = promise
        self._wrapped, self._module = wrapped, module
        self._gradient_bytes: int | None = None
        self._looks_left = LOOKED_AT_STEPS * parts.spec.accumulation

    def forward(self, micro_batch: Mapping[str, torch.Tensor], begin: Callable[[str], None]) -> torch.Tensor:
        self._module.begin = begin
        loss: torch.Tensor = self._wrapped(**micro_batch)
        return loss

    def backward(self, loss: torch.Tensor) -> None:
        super().backward(loss)
        if self._looks_left:
            self._looks_left -= 1
            self._look()

    def _look(self) -> None:
        """Notes what gradients take up. Only in the first steps, which are not timed."""
        self._gradient_bytes = stored_bytes(weight.grad for weight in self.update.learned if weight.grad is not None)

    def mean(self, loss: torch.Tensor | float) -> float:
        return _group.mean_of_ranks(float(loss))

    def _held(self) -> Held:
        return Held(
            weights=stored_bytes(self.parts.model.parameters()),
            gradients=self._gradient_bytes,
            masters=stored_bytes(self.update.masters),
            states=stored_bytes(self.update.optimizer.state.values()),
        )

    def findings(self) -> dict[str, float]:
        return findings_of(self._held(), [*self.update.masters, *self.update.optimizer.state.values()], self.parts.device)

    def facts(self) -> dict[str, Scalar]:
        return {**self.promise.facts()}

    def missing(self) -> str | None:
        return self.promise.broken_by(self._held())


class DataParallel(_Ranked):
    """DistributedDataParallel."""

    def __init__(self, parts: Parts) -> None:
        import torch

        refuse_offloading(parts, "ddp")
        module = loss_module(parts)
        index = [parts.device] if parts.device.type == "cuda" else None
        wrapped = torch.nn.parallel.DistributedDataParallel(module, device_ids=index, gradient_as_bucket_view=True)
        update = Update(parts.numerics, parts.learned, parts.recipe, parts.spec.clip_norm)
        super().__init__(parts, wrapped, module, update, promise_of(parts, parts.numerics, frozenset()))
        self._buckets: list[torch.Tensor] = []
        """Views of them: they stay when their gradients are let go of."""

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        return contextlib.nullcontext() if last else self._wrapped.no_sync()

    def _look(self) -> None:
        super()._look()
        self._buckets = [weight.grad for weight in self.update.learned if weight.grad is not None]

    def holdings(self) -> dict[str, Sequence[torch.Tensor]]:
        return {
            "parameters": [*self.parts.model.parameters(), *self.parts.model.buffers()],
            "gradients": self._buckets,
            "optimizer_states": [*self.update.masters, *state_tensors(self.update.optimizer)],
        }


class FullySharded(_Ranked):
    """fully_shard by unit."""

    whole = whole_weights = False
    shares_gradients = True

    def __init__(self, parts: Parts, *, root_holds_ends: bool = False, reshard_after_forward: bool = True) -> None:
        if len(parts.learned) != len(list(parts.model.parameters())):
            raise Unsupported(
                "fully_shard is measured here with all weights learning: leave out adapters and frozen formats, or take zero2 or zero3"
            )
        kept = parts.numerics
        if kept.master is not None:
            for weight in parts.model.parameters():
                weight.data = weight.data.to(torch_dtype(kept.master))
            kept = dataclasses.replace(kept, weights=kept.master, master=None)
        rows = sum(weight[0].numel() for weight in parts.model.parameters())
        promise = promise_of(parts, kept, EVERYTHING, dict.fromkeys(EVERYTHING, rows))
        module = loss_module(parts)
        self._shard(parts, module, root_holds_ends=root_holds_ends, reshard_after_forward=reshard_after_forward)
        super().__init__(parts, module, module, Update(kept, parts.learned, parts.recipe, parts.spec.clip_norm), promise)

    def _shard(self, parts: Parts, module: Any, *, root_holds_ends: bool, reshard_after_forward: bool) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

        offloading = parts.offloading
        if offloading.where not in ("nothing", "parameters and states to the host"):
            raise Unsupported(f"fully_shard has weights and states on the host together, not {offloading.where}")
        on_host = offloading.where != "nothing"
        pinned = parts.device.type == "cuda"
        options: dict[str, Any] = {
            "mesh": init_device_mesh(parts.device.type, (_group.ranks(),)),
            "mp_policy": _policy(MixedPrecisionPolicy, parts.numerics),
            "offload_policy": CPUOffloadPolicy(pin_memory=pinned) if on_host else OffloadPolicy(),
            "reshard_after_forward": reshard_after_forward,
        }
        decoder = parts.model.model
        for layer in decoder.layers:
            fully_shard(layer, **options)
        tied = parts.model.lm_head.weight is decoder.embed_tokens.weight
        if not root_holds_ends and not tied:  # tied weights are used at both ends of the step: the root's, whatever is asked
            fully_shard(decoder.embed_tokens, **options)
            fully_shard([decoder.norm, module.head], **options)
        fully_shard(module, **options)

    def holdings(self) -> dict[str, Sequence[torch.Tensor]]:
        weights = list(self.parts.model.parameters())
        return {
            "parameters": [*map(local_part, weights), *self.parts.model.buffers()],
            "gradients": [local_part(weight.grad) for weight in weights if weight.grad is not None],
            "optimizer_states": state_tensors(self.update.optimizer),
        }

    def gradients(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        return [(weight, local_part(weight.grad)) for weight in self.update.learned if weight.grad is not None]

    def product_dtype(self) -> torch.dtype | None:
        computed_in: torch.dtype | None = self._module.head.computed_in
        return computed_in

    def missing(self) -> str | None:
        if self.parts.learned and not hasattr(self.parts.learned[0], "to_local"):
            return "the weights are not sharded"
        return super().missing()


def _policy(policy: Any, numerics: Numerics) -> Any:
    if numerics.master is None:
        return policy()
    compute = torch_dtype(numerics.compute)
    return policy(param_dtype=compute, reduce_dtype=compute)
