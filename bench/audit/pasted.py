"""The setting to paste for a switch: what the plan's settings for a Trainer have more with it, else the words for a loop of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.audit.modelled import Modelled, with_change
from bench.audit.switches import FAMILY, Switch
from bench.audit.whole import Audit
from bench.plan.emit import FUSED_SLOTS, hf
from bench.plan.spec import ModelSpec, PlanError, TrainSpec, model_named

TRAINERS = ("transformers.Trainer", "trl.")
CALLS = ("TrainingArguments", "from_pretrained", "LoraConfig")
"""Parts of the plan's settings, each the arguments of the call of this name."""
ANY_MODEL, ANY_LENGTH = "llama-3-8b", 4096
"""Where the script's own sizes are not modelled: no setting of a switch depends on them."""


def pasted(switch: Switch, change: Mapping[str, str], filled: Mapping[str, str], plan: Modelled | None, audit: Audit) -> str:
    """One line, or several for several calls."""
    if audit.first is None or not any(name.startswith(TRAINERS) for name in audit.first.frameworks):
        return _by_hand(switch, audit)
    for model, train in _starts(change, filled, plan):
        try:
            before, after = hf(model, train), hf(model, with_change(train, change))
        except PlanError:
            continue  # the Trainer has no setting for something else in it
        lines = [
            f"{call}({', '.join(f'{name}={value!r}' for name, value in fresh.items())})"
            for call in CALLS
            if (fresh := _fresh(before.get(call, {}), after.get(call, {})))
        ]
        if lines:
            return "\n".join(lines)
    return _by_hand(switch, audit)


def _by_hand(switch: Switch, audit: Audit) -> str:
    family = audit.configured("model_type")
    return switch.by_hand.replace(FAMILY, family) if isinstance(family, str) else switch.by_hand


def _starts(change: Mapping[str, str], filled: Mapping[str, str], plan: Modelled | None) -> Iterator[tuple[ModelSpec, TrainSpec]]:
    """What runs now, then a plain training with Liger's pieces as they are, since their setting names all of them."""
    if plan is not None:
        yield plan.model, plan.train
    kept = {slot: filled[slot] for slot in (*FUSED_SLOTS, "linear_cross_entropy") if filled.get(slot) in ("eager", "liger")}
    if "linear" in change:
        kept["adaptation"] = "lora"
    if "precision" in change:
        kept["precision"] = "fp32"
    yield plan.model if plan is not None else model_named(ANY_MODEL), with_change(TrainSpec(seq_len=ANY_LENGTH), kept)


def _fresh(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if name not in before or before[name] != value}
