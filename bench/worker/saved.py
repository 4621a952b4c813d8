"""Bytes that autograd keeps between forward and backward: the price of training that inference does not pay."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from bench.metrics import METRICS
from bench.records import Measurement
from bench.worker.step import Step

NOTE = "what passes through saved_tensors_hooks; tensors that a custom function hides in its ctx are not seen"


def saved_bytes(step: Step) -> tuple[Measurement, ...]:
    """saved_bytes, and the part of it that is the pass's own inputs, from one forward.

    Storages are counted once and whole, however many views are saved: that is what stays alive. Parameters are excluded, since they
    stay alive anyway.
    """
    parameters = {_storage(tensor) for tensor in step.bound.parameters.values()}
    inputs = {_storage(tensor) for tensor in step.inputs.values()}
    kept: dict[int, int] = {}
    # The graph keeps them all alive until the block ends, so no address can come twice.
    with torch.autograd.graph.saved_tensors_hooks(_record(kept), _unchanged), torch.enable_grad():
        outputs: Mapping[str, torch.Tensor] | None = step.bound.forward(step.inputs)
    del outputs
    own = {address: size for address, size in kept.items() if address not in parameters}
    total = float(sum(own.values()))
    of_inputs = float(sum(size for address, size in own.items() if address in inputs))
    return (
        Measurement("saved_bytes", METRICS["saved_bytes"].unit, (total,), note=NOTE),
        Measurement("saved_input_bytes", METRICS["saved_input_bytes"].unit, (of_inputs,)),
    )


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _record(kept: dict[int, int]):  # type: ignore[no-untyped-def]
    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.nbytes():
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself may be the node's own output: a cycle that is never freed

    return pack


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
