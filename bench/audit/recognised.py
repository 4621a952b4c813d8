"""What fills the slots of a training step in somebody's script, in the words of the workload `train_step`.

A slot is named only where the probe's report leaves no choice. What is there and has no word of ours is told as a doubt, and then nothing
is predicted, nor looked up for that slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.audit.findings.precision import weight_shares
from bench.audit.whole import Audit
from bench.audited import ATTENTION_KINDS, Audited, Optimizer
from bench.plan.spec import FAMILIES, MODELLED

ATTENTION = ATTENTION_KINDS.keys() & set(MODELLED["attention"])
"""Kinds that the memory model has: a probe names them alike."""
LIGER: Mapping[str, str] = {
    "rms_norm": "rms_norm",
    "rope": "rope",
    "swiglu": "swiglu",
    "fused_linear_cross_entropy": "linear_cross_entropy",
}
"""Liger's piece to our slot."""
LINEAR: Mapping[str, str] = {"bitsandbytes nf4": "nf4_bnb", "bitsandbytes fp4": "fp4_bnb", "bitsandbytes int8": "int8_bnb"}
TORCHAO: Mapping[str, str] = {"AdamW8bit": "adamw8bit_ao", "AdamW4bit": "adamw4bit_ao", "AdamWFp8": "adamw_fp8_ao"}
SHARDING: Mapping[str, str] = {"none": "none", "ddp": "ddp", "fsdp2": "fsdp2"}


@dataclass(frozen=True, slots=True)
class Recognised:
    """Slot to implementation, and what has no word."""

    filled: Mapping[str, str]
    doubts: tuple[str, ...] = ()
    """What is there and is not modelled, a few words each."""


def recognise(audit: Audit) -> Recognised:
    """Of an audit that saw an update."""
    seen = audit.first
    if seen is None:
        return Recognised({})
    filled: dict[str, str] = {}
    doubts: list[str] = []
    slots: Mapping[str, Callable[[Audit, Audited], str | None]] = {
        "attention": _attention,
        "optimizer": _optimizer,
        "precision": _precision,
        "checkpointing": _checkpointing,
        "compile": _compile,
        "linear": _linear,
        "adaptation": _adaptation,
        "sharding": _sharding,
        "offload": _offload,
    }
    for slot, read in slots.items():
        found = read(audit, seen)
        if found is None:
            doubts.append(slot)
        else:
            filled[slot] = found
    return Recognised({**filled, **_liger(seen)}, tuple(doubts))


def _attention(audit: Audit, seen: Audited) -> str | None:
    most = audit.attention
    return most.kind if most is not None and most.kind in ATTENTION else None


def _liger(seen: Audited) -> dict[str, str]:
    """A piece that is in some places only is not in: neither a prediction nor a pair of rows has half of it."""
    config = seen.model.config if seen.model is not None else {}
    found = dict.fromkeys(LIGER.values(), "eager") if config.get("model_type") in FAMILIES else {}
    for piece in seen.liger:
        slot = LIGER.get(piece.piece)
        if slot is not None and piece.places:
            found[slot] = "liger" if piece.applied == piece.places else "eager"
    return found


def _optimizer(audit: Audit, seen: Audited) -> str | None:
    words = {_optimizer_word(one) for one in seen.optimizers}
    return words.pop() if len(words) == 1 else None


def _optimizer_word(one: Optimizer) -> str | None:
    name = one.class_name
    if one.package == "bitsandbytes":
        eight = one.optimizer_bits == 8 or "8bit" in name
        if "Lion" in name:
            return "lion8bit_bnb" if eight and not one.paged else None
        if "Adam" not in name or "AdEMAMix" in name:
            return None
        if one.paged:
            return "paged_adamw8bit_bnb" if eight else "paged_adamw32bit_bnb"
        return "adamw8bit_bnb" if eight else None
    if one.package == "torchao":
        return TORCHAO.get(name)
    if name in ("Adam", "AdamW") and one.package == "torch":
        return "adamw_fused" if one.fused else "adamw_foreach" if one.foreach else "adamw_forloop"
    if name == "FusedAdam" and one.package == "deepspeed":
        return "adamw_fused"
    if name == "Adafactor":
        return "adafactor"
    return "sgd" if name == "SGD" and one.package == "torch" else None


def _precision(audit: Audit, seen: Audited) -> str | None:
    found, shares = seen.precision, weight_shares(seen)
    if found is None or not shares:
        return None
    floating = {dtype: share for dtype, share in shares.items() if dtype.startswith(("float", "bfloat"))}
    if not floating:
        return None
    weights = max(floating, key=lambda dtype: floating[dtype])
    if seen.deepspeed is not None and seen.sharding is not None and seen.sharding.kind == "deepspeed":
        return _engine_precision(seen, weights)
    if weights == "float32":
        if not found.autocast_watched:
            return None
        scaled = found.scaler_skipped is not None or found.scaler_scale is not None
        by_autocast = {
            None: "fp32" if found.float32_matmul == "highest" else "tf32",
            "bfloat16": "bf16_amp",
            "float16": "fp16_amp_dynamic" if scaled else "fp16_amp_unscaled",
        }
        return by_autocast.get(found.autocast_dtype)
    # Autocast has nothing to cast where weights are in 16 bits already.
    return {"bfloat16": "bf16_pure", "float16": "fp16_pure"}.get(weights)


def _engine_precision(seen: Audited, weights: str) -> str | None:
    resolved = seen.deepspeed.resolved if seen.deepspeed is not None else {}
    if resolved.get("bf16"):
        return "bf16_master"
    if resolved.get("fp16"):
        return "fp16_master"
    return "fp32" if weights == "float32" else None


def _checkpointing(audit: Audit, seen: Audited) -> str | None:
    found = seen.checkpointing
    if found is None or found.recomputed is None or not found.layers:
        return None
    if not found.recomputed:
        return "none"
    if found.recomputed == found.layers:
        return "full"
    return "every_second" if found.recomputed == found.layers // 2 else None


def _compile(audit: Audit, seen: Audited) -> str | None:
    if seen.compiled is None or not seen.compiled.ran:
        return "none"
    if not seen.compiled.modules:
        return "none" if audit.attention is not None and audit.attention.kind == "flex" else None  # which compiles itself
    outermost = seen.model.class_name if seen.model is not None else ""
    return "model" if outermost in seen.compiled.modules else "layer"


def _linear(audit: Audit, seen: Audited) -> str | None:
    if not seen.quantized:
        return "plain"
    kinds = {(one.kind, bool(one.double_quantized)) for one in seen.quantized}
    if len(kinds) > 1:
        return None
    kind, double = kinds.pop()
    word = LINEAR.get(kind)
    return f"{word}_double" if word is not None and double else word


def _adaptation(audit: Audit, seen: Audited) -> str | None:
    if not seen.adapters:
        trains_all = seen.model is not None and seen.model.trained_elements == seen.model.elements
        return "full" if trains_all or seen.sharding is None or seen.sharding.kind not in ("none", "ddp") else None
    return "lora" if all("lora" in one.kind.lower() for one in seen.adapters) else None


def _sharding(audit: Audit, seen: Audited) -> str | None:
    kind = seen.sharding.kind if seen.sharding is not None else "none"
    if kind != "deepspeed":
        return SHARDING.get(kind)
    stage = seen.deepspeed.resolved.get("zero_stage") if seen.deepspeed is not None else None
    if stage in (1, 2, 3) and seen.world_size > 1:
        return f"zero{stage}"
    return ("ddp" if seen.world_size > 1 else "none") if stage == 0 else None


def _offload(audit: Audit, seen: Audited) -> str | None:
    resolved = seen.deepspeed.resolved if seen.deepspeed is not None else {}
    if resolved.get("offload_param_device") not in (None, "none"):
        return "parameters"
    if resolved.get("offload_optimizer_device") not in (None, "none"):
        return "optimizer"
    if seen.sharding is not None and seen.sharding.options.get("cpu_offload"):
        return "parameters"
    return "none"
