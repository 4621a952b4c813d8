"""Watches one step and says, slot by slot, whether what fills it was at work.

Kernel patterns say which kernel ran; they cannot say that it ran in every layer, and much of a step has no kernel of its own. So forwards
are counted and weights looked at, in a step of its own after the timing, whose gradients are thrown away. Where layers are compiled no
Python of ours is called within them: what stands in the model then counts as what was traced.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from bench.records import Proof
from bench.workloads.optimizer._recipe import OptimizerSpec
from bench.workloads.train_step._change import Change, Evidence
from bench.workloads.train_step._step import TrainingStep, unheard

if TYPE_CHECKING:
    import torch

COMPARED = 4096
"""Numbers of an attention's output, the last ones, that are held against those of its second run."""
UNLIKE = 0.05
"""Relative root mean square from which on it is no rounding: dropping one weight in a hundred anew costs three times that."""


def proofs(step: TrainingStep) -> dict[str, Proof]:
    """A proof for every slot whose state can be judged; a change that brings no proof of its own is none of them."""
    counts: Counter[str] = Counter()
    compiled = step.implementations["compile"].name != "none"
    handles = [] if compiled else _count(step.model, counts)
    again = RunAgain(step.model) if step.spec.dropout and not compiled else None
    learned: set[str] = set()
    try:
        with step.running():
            with step.driver.noting_learners(learned):
                step.differentiate(step.inputs, unheard)
            computed_in = _product_dtype(step)
    finally:
        for handle in (*handles, *(again.handles if again else ())):
            handle.remove()
    evidence = _evidence(step, counts, compiled, learned)
    step.driver.drop_gradients()
    found = {slot: _judged(change.proof(evidence)) for slot, change in step.changes.items() if isinstance(change, Change)}
    if again is not None and again.unlike and found["checkpointing"].verdict == "proved":
        missing = f"the attention of layer {again.unlike[0]} drops other weights when it runs again than it did in the forward"
        found["checkpointing"] = _judged(missing)
    found["precision"] = _judged(_numerics_missing(step, computed_in))
    found["optimizer"] = _judged(_states_missing(step))
    if step.implementations["sharding"].name != "none":
        found["sharding"] = _judged(step.driver.missing())
    if not compiled:
        found["attention"] = _judged(_uncalled(step, counts, "attention", step.spec.shape.layers))
        found["linear"] = _judged(_linears_uncalled(step, counts))
    return found


class RunAgain:
    """Listens for layers that run again and come to something else than before: gradients of a loss that nobody was told."""

    def __init__(self, model: Any) -> None:
        self.unlike: list[int] = []
        """Numbers of such layers."""
        self._before: dict[int, torch.Tensor] = {}
        self.handles = [
            layer.self_attn.register_forward_hook(functools.partial(self._ran, index))
            for index, layer in enumerate(model.model.layers)
        ]

    def _ran(self, index: int, module: Any, inputs: Any, returned: Any) -> None:
        import torch
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), torch.no_grad():  # a selective checkpoint would keep what is computed here
            part = returned[0].flatten()[-COMPARED:].float().cpu()
            if torch._C._current_graph_task_id() == -1:  # not within a backward
                self._before[index] = part
            elif index in self._before:
                before = self._before.pop(index)
                if not float((part - before).norm()) <= UNLIKE * float(before.norm()):
                    self.unlike.append(index)


def _judged(missing: str | None) -> Proof:
    return Proof("proved", (), "by its state") if missing is None else Proof("disproved", (), missing)


def _count(model: Any, counts: Counter[str]) -> list[Any]:
    """Counts forwards of each layer's parts, by `<part>.<layer>` and for linear layers `linear.<layer>.<name>`.

    They count when they begin: one that is run again ends as soon as the backward has what it needs.
    """
    handles = []

    def counting(key: str) -> Any:
        def count(*_: Any) -> None:
            counts[key] += 1

        return count

    for index, layer in enumerate(model.model.layers):
        handles.append(layer.self_attn.register_forward_pre_hook(counting(f"attention.{index}")))
        for name, module in _linears(layer):
            handles.append(module.register_forward_pre_hook(counting(f"linear.{index}.{name}")))
    return handles


def _linears(layer: Any) -> list[tuple[str, Any]]:
    """The linear layers of whichever library, and not what only wraps one; those within a part that is compiled are traced, not called."""
    traced = {id(inner) for part in layer.modules() if part._compiled_call_impl is not None for inner in part.modules()}
    return [
        (name, module)
        for name, module in layer.named_modules()
        if hasattr(module, "in_features")
        and hasattr(module, "out_features")
        and id(module) not in traced
        and not any(True for _ in module.children())
    ]


def _evidence(step: TrainingStep, counts: Counter[str], compiled: bool, learned: Container[str]) -> Evidence:
    import torch

    names = [name for name, _ in step.model.named_parameters()]
    return Evidence(
        model=step.model,
        accumulation=step.spec.accumulation,
        runs=None if compiled else tuple(counts[f"attention.{index}"] for index in range(step.spec.shape.layers)),
        learned=tuple(name for name in names if name in learned),
        frozen=tuple(name for name in names if name not in learned),
        compiled_graphs=int(torch._dynamo.utils.counters["stats"]["unique_graphs"]) if compiled else 0,
    )


def _product_dtype(step: TrainingStep) -> torch.dtype:
    """In which a product of two weights comes out where the step computes."""
    import contextlib

    import torch

    from bench.declare import torch_dtype

    if (told := step.driver.product_dtype()) is not None:
        return told
    numerics, weight = step.numerics, step.model.lm_head.weight.detach()[:1]
    cast = torch.autocast(weight.device.type, torch_dtype(numerics.compute)) if numerics.autocast else contextlib.nullcontext()
    with cast:
        return (weight @ weight.t()).dtype


def _numerics_missing(step: TrainingStep, computed_in: torch.dtype) -> str | None:
    from bench.declare import torch_dtype

    numerics, update = step.update.numerics, step.update
    if computed_in != torch_dtype(numerics.compute):
        return f"products come out in {computed_in}"
    head = step.model.lm_head.weight.dtype
    if head != torch_dtype(numerics.weights):
        return f"weights are {head}"
    if numerics.master is not None and {master.dtype for master in update.masters} != {torch_dtype(numerics.master)}:
        return f"no {numerics.master} copy of the weights"
    if (numerics.scaling == "dynamic") != update.scales_dynamically:
        return "losses are not scaled as said"
    return None


def _states_missing(step: TrainingStep) -> str | None:
    """Tensors that the optimizer does not have, and groups of them without the decay that all arms are given: no curve shows that."""
    outside, all_of_them = step.update.outside_the_optimizer()
    if outside:
        return f"{outside} of {all_of_them} tensors that learn are not with the optimizer"
    given = OptimizerSpec(dtype=step.numerics.updated).weight_decay
    for group in step.update.optimizer.param_groups:
        if (decay := float(group.get("weight_decay", given))) != given:
            return f"{len(group['params'])} tensors have weight_decay {decay:g}, and not {given:g}"
    return None


def _uncalled(step: TrainingStep, counts: Counter[str], part: str, layers: int) -> str | None:
    silent = [index for index in range(layers) if counts[f"{part}.{index}"] < step.spec.accumulation]
    return f"{part} of layer {silent[0]} was not called" if silent else None


def _linears_uncalled(step: TrainingStep, counts: Counter[str]) -> str | None:
    for index, layer in enumerate(step.model.model.layers):
        for name, _ in _linears(layer):
            if not counts[f"linear.{index}.{name}"]:
                return f"the linear layer {name} of layer {index} was passed by"
    return None
