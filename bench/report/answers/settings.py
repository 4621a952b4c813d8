"""What to copy in order to use what a row measured: settings for people's own training, and where there are none the suite's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from bench.plan.emit import HF_ATTENTION, HF_OPTIMIZERS, settings
from bench.plan.predict import specs
from bench.plan.spec import PlanError, TrainSpec
from bench.report.numbers.summary import CaseSummary
from bench.report.numbers.units import shorten

MOST_REASON = 200
SDPA_BACKENDS: Mapping[str, str] = {
    "sdpa_math": "MATH",
    "sdpa_flash": "FLASH_ATTENTION",
    "sdpa_efficient": "EFFICIENT_ATTENTION",
    "sdpa_cudnn": "CUDNN_ATTENTION",
}
"""Implementation to torch's name of the one backend that it allows."""
IMPORTS: Mapping[str, str] = {
    "flash_attn4": "from flash_attn.cute import flash_attn_func  # (batch, seq, heads, head_dim)",
}
LIGER: Mapping[str, str] = {
    "rms_norm": "rms_norm",
    "rope": "rope",
    "swiglu": "swiglu",
    "geglu": "geglu",
    "cross_entropy": "cross_entropy",
    "linear_cross_entropy": "fused_linear_cross_entropy",
}
"""Workload to the key of `liger_kernel_config`."""
OFFLOADING = "offloading"
"""The slot that the plan has another name for."""
FOUR_BIT = ("nf4_bnb", "nf4_bnb_double", "fp4_bnb", "fp4_bnb_double")


@dataclass(frozen=True, slots=True)
class Setting:
    """Text to copy, and what it is."""

    title: str
    text: str
    note: str | None = None
    """What a reader must know who copies it."""
    command: str | None = None
    """What measures it, where there is nothing else to copy."""


def setting(case: CaseSummary) -> Setting:
    """For the subject of `case`: never an error, since every row can at least be measured again."""
    if case.case.workload == "train_step":
        return _step(case)
    return _kernel(case) or _again(case, None)


def _again(case: CaseSummary, why: str | None) -> Setting:
    """The slots as a suite spells them, and the command that measures them."""
    slots = ", ".join(f"{slot}: {name}" for slot, name in case.case.subject.items())
    command = next((result.command for result in case.counted), None)
    return Setting("in a suite", f"# as an arm of a suite\n{{{slots}}}", why, command or None)


def _step(case: CaseSummary) -> Setting:
    known = {field.name for field in fields(TrainSpec)} | {OFFLOADING}
    slots = {slot: name for slot, name in case.case.subject.items() if slot in known}
    unsaid = [f"{slot} {name}" for slot, name in case.case.subject.items() if slot not in slots and name != "none"]
    try:
        text = settings("hf", *specs(case.case.params, slots))
    except (PlanError, TypeError, ValueError, KeyError) as error:
        # TypeError, ValueError, KeyError: an imported row may lack sizes and options, or hold what is none.
        return _again(case, f"no settings for transformers: {shorten(str(error), MOST_REASON)}")
    missing = f"not in it: {', '.join(unsaid)}" if unsaid else None
    return Setting("for transformers and its Trainer", text, missing)


def _kernel(case: CaseSummary) -> Setting | None:
    workload, subject = case.case.workload, case.case.subject
    if len(subject) != 1:
        return None
    name = next(iter(subject.values()))
    if workload == "attention":
        return _attention(name, case)
    if name == "liger" and workload in LIGER:
        arguments = {"use_liger_kernel": True, "liger_kernel_config": {LIGER[workload]: True}}
        return Setting(
            "for transformers' Trainer", f"TrainingArguments(**{_python(arguments)})", "Liger's other kernels keep their defaults"
        )
    if workload == "optimizer" and name in HF_OPTIMIZERS:
        return Setting("for transformers' Trainer", f'TrainingArguments(optim="{HF_OPTIMIZERS[name]}")')
    if workload == "linear" and name in FOUR_BIT:
        arguments = {"load_in_4bit": True, "bnb_4bit_quant_type": name[:3], "bnb_4bit_use_double_quant": name.endswith("double")}
        return Setting("for transformers", f"quantization_config=BitsAndBytesConfig(**{_python(arguments)})")
    return None


def _attention(name: str, case: CaseSummary) -> Setting | None:
    if name in SDPA_BACKENDS:
        params = case.case.params
        more = ", is_causal=True" if params.get("mask") == "causal" else ""
        more += ", enable_gqa=True" if params.get("kv_heads") != params.get("heads") else ""
        text = (
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
            f"with sdpa_kernel(SDPBackend.{SDPA_BACKENDS[name]}):\n"
            f"    out = torch.nn.functional.scaled_dot_product_attention(q, k, v{more})"
        )
        return Setting("for torch", text, 'transformers: attn_implementation="sdpa" inside the same context')
    if name in IMPORTS:
        return Setting("for torch", IMPORTS[name])
    if name in HF_ATTENTION:
        return Setting(
            "for transformers", f'AutoModelForCausalLM.from_pretrained(model, attn_implementation="{HF_ATTENTION[name]}")'
        )
    return None


def _python(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments).replace("true", "True").replace("false", "False")
