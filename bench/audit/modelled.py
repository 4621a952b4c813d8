"""Tells the memory model what somebody's script trains and how, as far as it has formulas for it; says what it has none for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bench.audit.recognised import Recognised
from bench.audit.whole import Audit
from bench.plan.spec import CONFIG_FIELDS, PROJECTIONS, ModelSpec, PlanError, TrainSpec

TRAIN_FIELDS = frozenset(field.name for field in fields(TrainSpec))
IN_32_BITS = ("fp32", "tf32")


class NotModelled(Exception):
    """The memory model has no formulas for this script; the text says for what of it."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """What the memory model is asked about."""

    model: ModelSpec
    train: TrainSpec
    peak_bytes: int
    """That it predicts, on one GPU."""
    notes: tuple[str, ...]
    """What of the script is otherwise than modelled, or not in the prediction."""


def modelled(audit: Audit, recognised: Recognised) -> Modelled:
    """Raises NotModelled."""
    from bench.plan.predict import predict_step

    try:
        model, notes = _model(audit), _notes(audit)
        if recognised.doubts:
            raise NotModelled(f"the memory model has no formulas for this script's {', '.join(recognised.doubts)}")
        said: dict[str, Any] = {slot: name for slot, name in recognised.filled.items() if slot in TRAIN_FIELDS}
        if not audit.on_cuda and said.get("attention") == "sdpa_flash" and said.get("precision") in IN_32_BITS:
            said["attention"] = "sdpa_efficient"
            notes.append("a GPU computes attention of fp32 numbers in torch's memory-efficient kernel, which is modelled")
        train = TrainSpec(**_sizes(audit), **said)
        prediction = predict_step(model, train)
    except PlanError as error:
        raise NotModelled(str(error)) from error
    return Modelled(model, train, prediction.peak_bytes, (*notes, *prediction.notes))


def with_change(train: TrainSpec, change: Mapping[str, str]) -> TrainSpec:
    """The same step with some slots filled otherwise. Raises PlanError."""
    changed: dict[str, Any] = dict(change)
    return replace(train, **changed)


def _model(audit: Audit) -> ModelSpec:
    config: Mapping[str, Any] = audit.first.model.config if audit.first is not None and audit.first.model is not None else {}
    missing = [key for key in ("model_type", *CONFIG_FIELDS.values()) if config.get(key) is None]
    if missing:
        raise NotModelled(f"the model's configuration does not tell {', '.join(missing)}")
    sizes = {field: int(config[key]) for field, key in CONFIG_FIELDS.items()}
    name = audit.first.model.class_name if audit.first is not None and audit.first.model is not None else "model"
    return ModelSpec(
        name=name,
        architecture=str(config["model_type"]),
        kv_heads=int(config.get("num_key_value_heads") or sizes["heads"]),
        head_dim=int(config.get("head_dim") or sizes["hidden_size"] // sizes["heads"]),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        sliding_window=config.get("sliding_window") if config.get("use_sliding_window", True) else None,
        **sizes,
    )


def batch_shape(audit: Audit) -> tuple[int, int] | None:
    """Sequences of a micro-batch and tokens of each, the largest where they vary; None where it was not seen."""
    steps = audit.steps
    shapes = [shape for shape in (steps.batch_shapes if steps is not None else ()) if len(shape) == 2 and min(shape) > 0]
    return max(((shape[0], shape[1]) for shape in shapes), key=lambda shape: shape[0] * shape[1], default=None)


def accumulation(audit: Audit) -> int | None:
    """Micro-batches of an update; None where it was not seen."""
    steps = audit.steps
    return max(1, round(steps.micro_batches)) if steps is not None and steps.micro_batches is not None else None


def _sizes(audit: Audit) -> dict[str, Any]:
    shape = batch_shape(audit)
    if shape is None:
        raise NotModelled("the shape of the model's inputs was not seen")
    found: dict[str, Any] = {"batch": shape[0], "seq_len": shape[1], "accumulation": accumulation(audit) or 1}
    seen = audit.first
    if seen is not None:
        found["world_size"] = seen.world_size
        ranks = [rank for one in seen.adapters for rank in one.ranks]
        if ranks:
            found["lora_rank"] = max(ranks)
    clip = audit.asked("max_grad_norm")
    if isinstance(clip, int | float) and not isinstance(clip, bool):
        found["clip_norm"] = float(clip)
    return found


def _notes(audit: Audit) -> list[str]:
    seen = audit.first
    if seen is None:
        return []
    notes = []
    if seen.steps is not None and len(seen.steps.batch_shapes) > 1:
        notes.append("the largest of several batch shapes is modelled")
    targets = {target for one in seen.adapters for target in one.targets}
    if targets and targets != set(PROJECTIONS):
        notes.append(f"adapters are modelled in all seven projections; here they are in {', '.join(sorted(targets))}")
    if not audit.on_cuda:
        notes.append("predicted is a GPU; this audit ran on a processor")
    if seen.data is not None and seen.data.padding_share:
        notes.append("padded batches are modelled as full ones; attention may get a mask for them that is not in it")
    return notes
