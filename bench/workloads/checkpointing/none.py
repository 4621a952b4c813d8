"""Nothing is computed again: every activation that a backward needs is kept."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.checkpointing import DTYPES, REQUIRES, runs_missed
from bench.workloads.train_step._change import Change, unchanged


@implementation(requires=REQUIRES, dtypes=DTYPES, passes=["step"])
def none(spec: Any) -> Change:
    return Change(unchanged, lambda evidence: runs_missed(evidence, lambda layer: False))
