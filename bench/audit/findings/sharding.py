"""What ranks share: DeepSpeed's resolved configuration, FSDP's units, DDP's buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit
from bench.audited import Audited, DeepSpeed, Sharding
from bench.report.numbers import units

ROOT_SHARE = 0.10
"""Of the model's numbers, from which on what the root unit gathers is worth a word."""
AUTO = "auto"


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None:
        return
    if seen.deepspeed is not None:
        yield from _deepspeed(seen, seen.deepspeed)
    if seen.sharding is not None and seen.sharding.kind.startswith("fsdp"):
        yield from _fsdp(seen, seen.sharding)
    if seen.sharding is not None and seen.sharding.kind == "ddp":
        yield from _ddp(seen, seen.sharding)


def differing(given: Mapping[str, Any], resolved: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Of what the file gives: settings that became something else, and those that were left to DeepSpeed; each with what it became."""
    became, chosen = {}, {}
    flat = _flat(resolved)
    for name, value in _flat(given).items():
        known = _known_as(name)
        now = flat.get(known)
        if now is None:
            continue
        if value == AUTO:
            chosen[name] = str(now)
        elif isinstance(value, str | int | float | bool) and str(value).lower() != str(now).lower() and not _equal(value, now):
            became[name] = f"{value} became {now}"
    return became, chosen


def _equal(one: Any, other: Any) -> bool:
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return False


_SPELLED: Mapping[str, str] = {
    "zero_optimization.stage": "zero_stage",
    "bf16.enabled": "bf16",
    "fp16.enabled": "fp16",
    "optimizer.type": "optimizer_class",
    "zero_optimization.offload_optimizer.device": "offload_optimizer_device",
    "zero_optimization.offload_param.device": "offload_param_device",
}
"""Key of the file to the key of what was resolved, where they differ."""


def _known_as(name: str) -> str:
    return _SPELLED.get(name, name.replace("zero_optimization.", "zero.", 1))


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        found |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def _deepspeed(seen: Audited, engine: DeepSpeed) -> Iterator[Finding]:
    stage = engine.resolved.get("zero_stage")
    became, chosen = differing(engine.given, engine.resolved)
    numbers = {
        "stage": stage if isinstance(stage, int) else None,
        "settings_that_differ": len(became),
        "settings_left_open": len(chosen),
    }
    if became:
        yield look(
            "deepspeed", f"DeepSpeed runs ZeRO stage {stage}, otherwise than its file says: {_listed(became)}",
            "the Trainer's arguments win over the file where it says auto, and DeepSpeed corrects what cannot be", **numbers,
        )  # fmt: skip
    else:
        filled = f"; auto became {_listed(chosen, ' = ')}" if chosen else ""
        yield fine("deepspeed", f"DeepSpeed runs ZeRO stage {stage} as its configuration says{filled}", **numbers)
    if stage == 0 and (seen.world_size > 1 or engine.given):
        yield look("deepspeed_stage_0", "ZeRO stage 0 shares nothing: every rank holds all weights, gradients and states")
    if engine.skipped_steps and seen.steps is not None:
        share = engine.skipped_steps / seen.steps.seen
        text = f"DeepSpeed left out {engine.skipped_steps} of {seen.steps.seen} updates: gradients overflow"
        numbers = {"skipped": engine.skipped_steps, "updates": seen.steps.seen}
        yield (wrong if share > 0.5 else look)("skipped_steps", text, "bf16 needs no loss scale", **numbers)


def _listed(found: Mapping[str, str], join: str = " ") -> str:
    return ", ".join(f"{name}{join}{value}" for name, value in list(found.items())[:6])


def _fsdp(seen: Audited, sharding: Sharding) -> Iterator[Finding]:
    root = next((unit for unit in sharding.units if unit.root), None)
    inner = [unit for unit in sharding.units if not unit.root]
    units_of = ", ".join(f"{unit.units} × {unit.class_name}" for unit in inner)
    elements = seen.model.elements if seen.model is not None else 0
    if root is not None and not inner:
        yield wrong(
            "fsdp_units",
            "FSDP has one unit, the whole model: every rank gathers all weights at once",
            "wrap the layers: fsdp_transformer_layer_cls_to_wrap, or fully_shard on each of them first",
            gathered=root.largest_elements,
        )
        return
    yield fine("fsdp_units", f"{sharding.kind.upper()} gathers {units_of} one at a time", units=sum(unit.units for unit in inner))
    if root is not None and elements and root.largest_elements / elements >= ROOT_SHARE:
        holds = ", ".join(sharding.root_holds[:3]) or "what no layer holds"
        size = root.largest_elements * _bytes_of_a_number(seen, sharding)
        yield look(
            "fsdp_root_unit",
            f"FSDP's root unit holds {holds} and keeps it gathered through forward and backward: {units.size(size)}",
            "give embedding and head units of their own (fully_shard on each), or reshard_after_forward=True on the root",
            root_share=root.largest_elements / elements,
            gathered_bytes=size,
        )


def _bytes_of_a_number(seen: Audited, sharding: Sharding) -> int:
    """Of a gathered weight: in the dtype that FSDP computes in, where it casts, else in its own."""
    dtype = str(sharding.options.get("param_dtype") or "")
    if not dtype and seen.model is not None and seen.model.parameters:
        dtype = max(seen.model.parameters, key=lambda group: group.elements).dtype
    return 2 if "16" in dtype else 4


def _ddp(seen: Audited, sharding: Sharding) -> Iterator[Finding]:
    gradients = sum(group.bytes for group in seen.gradients)
    if sharding.options.get("gradient_as_bucket_view") is False and gradients:
        yield look(
            "ddp_buckets",
            f"DDP keeps gradients twice, once in its buckets: {units.size(gradients)}",
            "gradient_as_bucket_view=True (DistributedDataParallelKwargs of accelerate)",
            gradients_bytes=gradients,
        )
    if sharding.options.get("find_unused_parameters") is True:
        yield look(
            "ddp_unused_parameters",
            "DDP looks for unused parameters in every step",
            "ddp_find_unused_parameters=False where all are used",
        )
