"""Notices whether anything compiles: nothing may, once the timed region has begun.

Two witnesses, because no library tells all. Every compiler that caches on disk (Triton, inductor, CUTLASS's DSL) adds files to the
run's own cache folders, which were empty when the run began. And torch counts the frames that dynamo has compiled.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR")


@dataclass(frozen=True, slots=True)
class CompileState:
    """What had been compiled at some moment."""

    files: int
    frames: int

    def since(self, earlier: CompileState) -> str | None:
        """What compiled in between, in words; None: nothing did."""
        parts = []
        if self.frames > earlier.frames:
            parts.append(f"torch.compile compiled {self.frames - earlier.frames} frame(s)")
        if self.files > earlier.files:
            parts.append(f"{self.files - earlier.files} new file(s) in the compile caches")
        return " and ".join(parts) or None


def compile_state() -> CompileState:
    """The present state; cheap enough to call around every timed region."""
    folders = {Path(folder) for name in CACHE_VARIABLES if (folder := os.environ.get(name))}
    return CompileState(sum(_files(folder) for folder in folders), _dynamo_frames())


def _files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _dynamo_frames() -> int:
    dynamo = sys.modules.get("torch._dynamo.utils")  # not imported: it has compiled nothing
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])
