"""What of a decoder torch.compile is given: nothing, each layer, or the whole model below the loss.

The slot's builder gets the step's spec and returns a change of the model, made after every other. The loss over the vocabulary is not
compiled with it: it is a slot of its own, with a `compiled` implementation. What torch.compile cannot trace stays eager within it (a
graph break), as for users. The proof is that the modules are marked, and that code was traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.workloads.train_step._change import Change, Evidence

DTYPES = ["fp32", "tf32", "bf16", "fp16"]
REFUSES = ["InvalidCxxCompiler", "No working C\\+\\+ compiler"]


def compiled(modules: Callable[[Any], list[Any]]) -> Change:
    """Compiles those modules of a model where they stand."""

    def compile_them(model: Any) -> Any:
        for module in modules(model):
            module.compile(dynamic=False)
        return model

    def missing(evidence: Evidence) -> str | None:
        eager = sum(module._compiled_call_impl is None for module in modules(evidence.model))
        if eager:
            return f"{eager} modules are not compiled"
        return None if evidence.compiled_frames else "nothing was traced"

    return Change(compile_them, missing)
