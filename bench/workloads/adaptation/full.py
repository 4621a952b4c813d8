"""Every weight learns."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.train_step._change import Change, Evidence, unchanged


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def full(spec: Any) -> Change:
    return Change(unchanged, _without_gradient)


def _without_gradient(evidence: Evidence) -> str | None:
    return f"no gradient for {', '.join(evidence.frozen[:3])}" if evidence.frozen else None
