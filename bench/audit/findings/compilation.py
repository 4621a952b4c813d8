"""torch.compile: asked for, whether compiled code ran, where it broke, and whether it goes on compiling."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None:
        return
    compiled = seen.compiled
    asked = bool(audit.asked("torch_compile")) or (compiled is not None and bool(compiled.modules or compiled.ran))
    if not asked:
        return
    if compiled is None or not compiled.graphs or compiled.ran == 0:
        graphs = compiled.graphs if compiled is not None else 0
        yield wrong(
            "compile",
            "torch.compile was asked for, and no compiled code ran in a step",
            "the compiled object is not what the loop calls, or TORCHDYNAMO_DISABLE is set",
            graphs=graphs,
        )
        return
    what = ", ".join(compiled.modules) or "a function"
    numbers = {"graphs": compiled.graphs, "graph_breaks": compiled.graph_breaks, "compiled_calls": compiled.ran}
    if compiled.graph_breaks:
        why = f": {'; '.join(compiled.break_reasons[:3])}" if compiled.break_reasons else ""
        yield look(
            "compile",
            f"{what} is compiled with {compiled.graph_breaks} graph breaks{why}",
            "TORCH_LOGS=graph_breaks shows where",
            **numbers,
        )
    else:
        yield fine("compile", f"{what} is compiled without a graph break", **numbers)
    if compiled.recompiled_while_timed:
        shapes = len(seen.steps.batch_shapes) if seen.steps is not None else 0
        yield look(
            "recompiles",
            "something was compiled again during the timed steps: shapes or values change",
            "pad to few lengths, or compile with dynamic=True; TORCH_LOGS=recompiles shows why",
            batch_shapes=shapes,
        )
