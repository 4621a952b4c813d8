"""What one rank holds: as tensors, as numbers, and as it was promised before the model was shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported, dtype_bytes
from bench.workloads.precision import Numerics
from bench.workloads.sharding import _group
from bench.workloads.sharding._bytes import host_pinned_bytes, host_resident_bytes, stored_bytes
from bench.workloads.sharding._promise import Held, Promise
from bench.workloads.train_step._driver import Parts

if TYPE_CHECKING:
    import torch

LOOKED_AT_STEPS = 3
"""Untimed steps after whose backward gradients are looked at; DistributedDataParallel makes its final buckets in the second."""


def findings_of(held: Held, states: Iterable[Any], device: torch.device) -> dict[str, float]:
    """What a rank holds, and what the host holds besides on a device with memory of its own."""
    found = {
        "weight_bytes": held.weights,
        "gradient_bytes": held.gradients,
        "master_bytes": held.masters,
        "state_bytes": held.states,
        "host_resident_bytes": host_resident_bytes(),
    }
    if device.type != "cpu":
        found["state_host_bytes"] = stored_bytes(states, device="cpu")
        found["host_pinned_bytes"] = host_pinned_bytes()
    return {name: float(value) for name, value in found.items() if value is not None}


def promise_of(
    parts: Parts, numerics: Numerics, shared: frozenset[str], uneven: Mapping[str, int] | None = None, *, all_in: str | None = None
) -> Promise:
    """From the model before it is shared; `numerics` are those of the update. `all_in`: to which all but quantized weights are cast."""
    weights = list(parts.model.parameters())
    cast = [weight for weight in weights if weight.is_floating_point()] if all_in is not None else []
    kept = [weight for weight in weights if all_in is None or not weight.is_floating_point()]
    cast_bytes = sum(weight.numel() for weight in cast) * dtype_bytes(all_in) if all_in is not None else 0
    return Promise(
        whole_weight_bytes=stored_bytes(kept) + cast_bytes,
        learned_elements=sum(weight.numel() for weight in parts.learned),
        numerics=numerics,
        plain_adamw=getattr(parts.recipe, "algorithm", "adamw") == "adamw" and getattr(parts.recipe, "tolerance", None) is None,
        ranks=_group.ranks(),
        shared=shared,
        uneven=uneven or {},
    )


def state_tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """This rank's part of all states."""
    return [local_part(value) for state in optimizer.state.values() for value in state.values() if hasattr(value, "dtype")]


def refuse_offloading(parts: Parts, name: str) -> None:
    """Raises Unsupported where something is to leave the device."""
    if parts.offloading.where != "nothing":
        raise Unsupported(f"{name} keeps everything on the device; {parts.offloading.where} needs {parts.offloading.by}")


def local_part(tensor: Any) -> Any:
    """This rank's part, on whatever device it lies."""
    return tensor.detach().to_local() if hasattr(tensor, "to_local") else tensor
