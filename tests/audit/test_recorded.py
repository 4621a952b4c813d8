"""Seven trainings of a billion weights as a probe saw them on an H200: each is named as its script had it, and its peak as it was planned.

`h200_ways.json.gz` holds what `bench audit --steps 14 -- python3 tests/worker/audit_scripts/billion.py WAY` stored there, with the versions
in it: torch 2.11, transformers 5.17, flash-attn 2.8.3, Liger 0.8.5, bitsandbytes 0.50.2, peft 0.21.2.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bench.audit.advice import advise
from bench.audit.finding import Severity
from bench.audit.findings import findings
from bench.audit.recognised import recognise
from bench.audit.told import audit_lines
from bench.audit.whole import Audit, from_data

WAYS = {
    way: from_data(data)
    for way, data in json.loads(gzip.decompress((Path(__file__).parent / "h200_ways.json.gz").read_bytes())).items()
}
CUDNN, FLASH = ("sdpa_cudnn", 16), ("flash_attn2", 16)
PIECES = {("rms_norm", 33), ("rope", 16), ("swiglu", 16), ("fused_linear_cross_entropy", 1)}
PLAIN: dict[str, Any] = {
    "attention": [CUDNN], "liger": set(), "optimizer": ("AdamW", None), "recomputed": 0, "quantized": [], "adapters": [], "wrong": [],
}  # fmt: skip
EIGHT = {"optimizer": ("AdamW8bit", 8), "recomputed": 16}
TRUTH: dict[str, dict[str, Any]] = {
    "sdpa": PLAIN,
    "flash": {**PLAIN, "attention": [FLASH]},
    "liger": {**PLAIN, "liger": PIECES},
    "adam8bit": {**PLAIN, **EIGHT},
    "qlora": {
        **PLAIN,
        "quantized": [("bitsandbytes nf4", 112, True, "bfloat16")],
        "adapters": [("peft LoRA", 64, (16,), ("q_proj", "k_proj", "v_proj", "o_proj"))],
    },
    "all": {**PLAIN, **EIGHT, "attention": [FLASH], "liger": PIECES},
    "lies": {**PLAIN, "wrong": ["attention"]},
}
PLANNED = 0.01
"""Of the measured peak."""


def named(audit: Audit) -> dict[str, Any]:
    seen = audit.first
    assert seen is not None
    assert seen.checkpointing is not None
    (optimizer,) = seen.optimizers
    return {
        "attention": [(one.kind, one.modules) for one in seen.attention],
        "liger": {(one.piece, one.places) for one in seen.liger if one.applied == one.places and one.ran},
        "optimizer": (optimizer.class_name, optimizer.optimizer_bits),
        "recomputed": seen.checkpointing.recomputed,
        "quantized": [(one.kind, one.modules, one.double_quantized, one.compute_dtype) for one in seen.quantized],
        "adapters": [(one.kind, one.modules, one.ranks, one.targets) for one in seen.adapters],
        "wrong": [one.name for one in findings(audit) if one.severity is Severity.WRONG],
    }


@pytest.mark.parametrize("way", TRUTH)
def test_it_names_what_the_script_had_on_and_nothing_else(way: str) -> None:
    audit = WAYS[way]
    assert audit.gpu == "NVIDIA H200"
    assert named(audit) == TRUTH[way]
    assert recognise(audit).doubts == ()
    assert audit.first is not None
    assert audit.first.notes == ()


@pytest.mark.parametrize("way", [way for way in TRUTH if way != "qlora"])
def test_the_plan_of_what_ran_is_what_was_measured(way: str) -> None:
    off = advise(WAYS[way], None).off
    assert off is not None
    assert abs(off) < PLANNED


def test_a_plan_of_other_adapters_than_the_scripts_is_told_as_doubtful() -> None:
    text = "\n".join(audit_lines(WAYS["qlora"], (), advise(WAYS["qlora"], None)))
    assert "so far off that the memory above is doubtful" in text
    assert "adapters are modelled in all seven projections; here they are in k_proj, o_proj, q_proj, v_proj" in text


def test_a_liar_is_told_what_ran_instead() -> None:
    (wrong,) = [one for one in findings(WAYS["lies"]) if one.severity is Severity.WRONG]
    assert wrong.text == "flash_attention_2 requested, and 16 of 16 layers ran something else: PyTorch's call of cuDNN (16)"


def test_products_in_fp32_beside_adapters_are_noticed() -> None:
    assert [one.name for one in findings(WAYS["qlora"]) if one.severity is Severity.LOOK] == ["tf32_off"]
