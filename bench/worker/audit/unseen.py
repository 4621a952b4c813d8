"""Gradients that a script lets go of in a profiled step, which the host's allocator does not tell.

It tells a release only of what was allocated while the profiler was on. A gradient of the step before is older, and most loops let go of it
somewhere in the next one. So it is looked for at the model's calls and at the first gradients, and told by a mark in the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from bench.worker.attribution import Event, Trace
from bench.worker.attribution_trace import MARK, _addresses
from bench.worker.audit.tensors import parts

FREED = "freed"


class OldGradients:
    """Those that are there when a step begins."""

    def __init__(self, leaves: Iterable[torch.Tensor]) -> None:
        self._kept = [(leaf, _of(leaf)) for leaf in leaves if leaf.grad is not None]

    def tell(self) -> None:
        """Marks what is gone by now, each once."""
        kept = []
        for leaf, addresses in self._kept:
            if _of(leaf) == addresses:
                kept.append((leaf, addresses))
                continue
            for address in addresses:
                with torch.profiler.record_function(f"{MARK}{FREED} {address}"):
                    pass
        self._kept = kept


def _of(leaf: torch.Tensor) -> tuple[int, ...]:
    return () if leaf.grad is None else tuple(address for part in parts(leaf.grad) for address in _addresses(part))


def with_releases(trace: Trace) -> Trace:
    """The trace with a release of each resident that is marked as gone, or in whose place something else was allocated before the mark."""
    old = {address for address, _ in trace.residents}
    marks = [Event(label.position, label.address, -1) for label in trace.labels if label.cause == FREED]
    gone = {(mark.position, mark.address) for mark in marks}
    events = []
    for event in sorted((*trace.events, *marks), key=lambda event: event.position):
        known = event.address in old
        old.discard(event.address)
        if event.size > 0 and known:
            events.append(Event(event.position, event.address, -1))
        if known or (event.position, event.address) not in gone:
            events.append(event)
    return replace(trace, events=events, labels=[label for label in trace.labels if label.cause != FREED])
