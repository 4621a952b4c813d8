"""Page-locked memory of the host, as torch hands it out to one process for copies to and from a GPU.

`ATen/core/CachingHostAllocator.h`, torch 2.11 and 2.13: each request takes the next power of two. What is given back stays with the
process and serves a later request of the same power, and no other. DeepSpeed pins through it too (`abstract_accelerator.py`, 0.19).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bench.plan.rounding import pinned_bytes
from bench.plan.terms import HOST, PINNED, Away


class Pinning:
    """What one process asks for, in its order. Without CUDA nothing is pinned, and each request takes its own bytes."""

    def __init__(self, *, cuda: bool) -> None:
        self._cuda = cuda
        self._free: Counter[int] = Counter()

    def away(self, name: str, sizes: Iterable[int], formula: str, source: str) -> Away:
        """Buffers of so many bytes: what they take that the process does not have yet."""
        if not self._cuda:
            return Away(name, HOST, sum(sizes), formula, source)
        taken = 0
        for block in map(pinned_bytes, sizes):
            if self._free[block]:
                self._free[block] -= 1
            else:
                taken += block
        return Away(name, PINNED, taken, f"{formula}, in powers of two", source)

    def give_back(self, sizes: Iterable[int]) -> None:
        """Buffers of so many bytes, which are not used any more."""
        self._free.update(map(pinned_bytes, sizes))
