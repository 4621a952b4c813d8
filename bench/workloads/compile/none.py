"""Nothing is compiled as a whole; an implementation in another slot may compile itself."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.compile import DTYPES, is_compiled
from bench.workloads.train_step._change import Change, Evidence, unchanged


@implementation(dtypes=DTYPES, passes=["step"])
def none(spec: Any) -> Change:
    return Change(unchanged, _compiled)


def _compiled(evidence: Evidence) -> str | None:
    modules = (evidence.model.model, *evidence.model.model.layers)
    return None if not any(map(is_compiled, modules)) else "a layer or the model is compiled"
