"""Describes what torch.compile did in this process: torch counts it itself."""

from __future__ import annotations

import sys
from typing import Any

from bench.audited import Compiled
from bench.worker.audit.marks import is_compiled
from bench.worker.audit.scene import Scene, class_of

MOST_REASONS = 5


def graphs_so_far() -> int:
    """Graphs that this process has compiled; 0 where it never loaded the compiler."""
    counters = _counters()
    return int(counters["stats"]["unique_graphs"]) if counters is not None else 0


def describe_compiling(scene: Scene, ran: int | None) -> Compiled | None:
    """None where nothing was compiled, and nothing was meant to be. `ran`: calls of compiled graphs in the profiled step."""
    modules = dict.fromkeys(
        class_of(getattr(module, "_orig_mod", module)).__name__ for module in scene.root.modules() if is_compiled(module)
    )
    graphs = graphs_so_far()
    if not modules and not graphs:
        return None
    counters = _counters()
    reasons = sorted(counters["graph_break"].items(), key=lambda item: -item[1]) if counters is not None else []
    shown = tuple(str(reason).strip().partition("\n")[0] for reason, _ in reasons[:MOST_REASONS])
    return Compiled(tuple(modules), graphs, sum(count for _, count in reasons), shown, ran, recompiled_while_timed=False)


def _counters() -> Any:
    return getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
