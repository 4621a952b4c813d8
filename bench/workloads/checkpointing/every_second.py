"""Every second layer keeps its input only, the first among them; the others keep everything."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.checkpointing import DTYPES, REQUIRES, checkpointed
from bench.workloads.train_step._change import Change


@implementation(requires=REQUIRES, dtypes=DTYPES, passes=["step"])
def every_second(spec: Any) -> Change:
    return checkpointed(2)
