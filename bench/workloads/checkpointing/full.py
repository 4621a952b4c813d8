"""Each layer keeps its input only, and runs its forward once more in the backward."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.checkpointing import DTYPES, REQUIRES, checkpointed
from bench.workloads.train_step._change import Change


@implementation(requires=REQUIRES, dtypes=DTYPES, passes=["step"])
def full(spec: Any) -> Change:
    return checkpointed(1)
