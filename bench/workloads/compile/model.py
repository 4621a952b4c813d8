"""The decoder is compiled as a whole, from the tokens to the last hidden states: longest to compile, most to fuse."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.compile import DTYPES, REFUSES, compiled
from bench.workloads.train_step._change import Change


@implementation(dtypes=DTYPES, passes=["step"], refuses=REFUSES)
def model(spec: Any) -> Change:
    return compiled(spec, lambda whole: [whole.model])
