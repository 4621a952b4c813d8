"""What is on in a training, part by part, in the words of people: the same list is shown of one audit and held against another's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.audit.findings.optimizer import kind_of
from bench.audit.recognised import recognise
from bench.audit.whole import Audit
from bench.audited import Audited, Tensors
from bench.report.numbers import units

ENGINE: Mapping[str, str] = {
    "zero_stage": "ZeRO stage",
    "train_micro_batch_size_per_gpu": "micro-batch",
    "gradient_accumulation_steps": "accumulation",
    "gradient_clipping": "clipping",
    "offload_optimizer_device": "states on",
    "offload_param_device": "weights on",
    "zero_optimizer_class": "by",
}
"""What DeepSpeed resolved to what it is called here."""
FEW_PRODUCTS = 0.05
"""Of the time of matrix products: those of a dtype that takes less are not listed."""
LEAST_HELD = 0.001
"""Of the bytes of a part: what is less (counters of steps) is not listed."""
UNSAID = (None, "none", "")


def switches(audit: Audit) -> dict[str, str]:
    """Each part by a name with what it is. Empty where no update was seen."""
    seen = audit.first
    if seen is None or not audit.trained:
        return {}
    return {**recognise(audit).filled, **dict(_parts(seen)), **dict(_shared(seen)), **dict(_fed(seen))}


def _parts(seen: Audited) -> Iterator[tuple[str, str]]:
    device = seen.device.kind if seen.device is not None else ""
    if seen.model is not None and seen.model.parameters:
        yield "weights", _held(seen.model.parameters, device)
    if seen.gradients:
        yield "gradients", _held(seen.gradients, device)
    if seen.optimizers:
        yield "optimizer", "; ".join(kind_of(one) for one in seen.optimizers)
        yield "optimizer states", _held([state for one in seen.optimizers for state in one.states], device)
    if seen.precision is not None:
        if seen.precision.autocast_watched:
            yield "autocast", seen.precision.autocast_dtype or "off"
        if seen.precision.matmul_inputs:
            shares = sorted(seen.precision.matmul_inputs.items(), key=lambda one: -one[1])
            yield "products of", ", ".join(dtype for dtype, share in shares if share >= FEW_PRODUCTS)
    if seen.checkpointing is not None and seen.checkpointing.layers and seen.checkpointing.recomputed is not None:
        yield "checkpointing", f"{seen.checkpointing.recomputed} of {seen.checkpointing.layers} layers"
    for piece in seen.liger:
        yield f"Liger {piece.piece}", f"{piece.applied} of {piece.places}"
    for quantized in seen.quantized:
        yield f"quantized {quantized.kind}", f"{quantized.modules} modules, {units.size(quantized.bytes)}"
    for one in seen.adapters:
        yield one.kind, f"rank {', '.join(map(str, one.ranks))} in {one.modules} modules ({', '.join(one.targets)})"
    if seen.compiled is not None and (seen.compiled.modules or seen.compiled.ran):
        breaks = f"{seen.compiled.graphs} graphs, {seen.compiled.graph_breaks} breaks"
        yield "compiled", f"{', '.join(seen.compiled.modules) or 'functions'}: {breaks}"


def _held(groups: Sequence[Tensors], device: str) -> str:
    """`2.30 GiB bfloat16, 1.00 GiB float32 on cpu`: the largest first; what lies on the training's `device` has no place."""
    found: dict[tuple[str, str], int] = {}
    for group in groups:
        found[group.dtype, group.place] = found.get((group.dtype, group.place), 0) + group.bytes
    least = LEAST_HELD * sum(found.values())
    rows = sorted(((what, size) for what, size in found.items() if size >= least), key=lambda one: -one[1])
    return (
        ", ".join(f"{units.size(size)} {dtype}" + (f" on {place}" if place != device else "") for (dtype, place), size in rows)
        or "none"
    )


def _shared(seen: Audited) -> Iterator[tuple[str, str]]:
    if seen.deepspeed is not None:
        resolved = seen.deepspeed.resolved
        yield "DeepSpeed", ", ".join(f"{word} {resolved[key]}" for key, word in ENGINE.items() if resolved.get(key) not in UNSAID)
    sharding = seen.sharding
    if sharding is None:
        return
    if sharding.units:
        gathered = ", ".join(f"{unit.units} × {unit.class_name}" for unit in sharding.units)
        yield f"{sharding.kind} units", f"{gathered}{_options(sharding.options)}"
    elif sharding.options:
        yield f"{sharding.kind} options", _options(sharding.options).removeprefix("; ")


def _options(options: Mapping[str, Any]) -> str:
    said = [f"{name.replace('_', ' ')} {value}" for name, value in options.items() if value not in UNSAID]
    return f"; {', '.join(said)}" if said else ""


def _fed(seen: Audited) -> Iterator[tuple[str, str]]:
    steps, data = seen.steps, seen.data
    if steps is not None and steps.batch_shapes:
        yield "batch shapes", ", ".join("×".join(map(str, shape)) for shape in steps.batch_shapes)
    if steps is not None and steps.micro_batches is not None:
        yield "micro-batches of an update", f"{steps.micro_batches:g}"
    if data is not None and data.workers is not None:
        yield "data workers", str(data.workers)
