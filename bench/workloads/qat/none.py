"""The model is trained as it is."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.qat._torchao import fake_quantized
from bench.workloads.train_step._change import Change, Evidence, unchanged


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def none(spec: Any) -> Change:
    return Change(unchanged, _prepared)


def _prepared(evidence: Evidence) -> str | None:
    count = fake_quantized(evidence.model)
    return f"{count} linear layers are prepared for quantization" if count else None
