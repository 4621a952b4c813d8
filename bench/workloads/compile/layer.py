"""Each decoder layer is compiled alone: all are alike, so that one compilation serves them all."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.compile import DTYPES, REFUSES, compiled
from bench.workloads.train_step._change import Change


@implementation(dtypes=DTYPES, passes=["step"], refuses=REFUSES)
def layer(spec: Any) -> Change:
    return compiled(spec, lambda model: list(model.model.layers))
