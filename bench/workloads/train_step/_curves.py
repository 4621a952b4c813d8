"""Curves of plain PyTorch that the trials of a run hand on to one another: the arms of a point are compared with the same ones.

A curve is fifty steps and follows from what its key holds, so whoever computes it gets the same numbers; computed anew by each arm they
are four fifths of a check. A run names a folder for them, for as long as it lasts and in one environment. In a process where a library
has changed what plain PyTorch computes a curve would mislead others. So a trial leaves its own only where its check has passed, and
whom a curve of others fails is compared with its own after all (`_learning.py`). How many were taken over is told in the row.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bench.workloads.train_step._spec import TrainStepSpec

if TYPE_CHECKING:
    import torch

    from bench.declare import Implementation

FOLDER_VARIABLE = "BENCH_CURVES_DIR"
"""Names the run's folder; where it is not set nothing is handed on."""
_OURS = "bench.workloads."


class Curves:
    """Curves by what they follow from: those that lie in `folder`, and those that are computed here."""

    def __init__(self, folder: Path | None) -> None:
        self.taken = 0
        """How many came from the folder."""
        self._folder = folder
        self._made: dict[Path, list[float]] = {}

    def curve(self, key: str, compute: Callable[[], list[float]]) -> list[float]:
        """The losses of `key`, computed where nobody has left them."""
        if self._folder is None:
            return compute()
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        try:
            text = path.read_text()
        except FileNotFoundError:
            self._made[path] = compute()
            return self._made[path]
        self.taken += 1
        losses: list[float] = json.loads(text)
        return losses

    def leave(self) -> None:
        """Puts what was computed here into the folder, but for what is not finite. Each file whole or not at all."""
        for path, losses in self._made.items():
            if not all(map(math.isfinite, losses)):
                continue
            with contextlib.suppress(OSError):  # a full disk is no fault of the subject's: others compute for themselves then
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_suffix(f".{os.getpid()}")
                partial.write_text(json.dumps(losses))
                partial.replace(path)


def curves_of_this_run() -> Curves:
    """Those of the run that this process belongs to."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Curves(Path(folder) if folder else None)


def key_of(
    spec: TrainStepSpec,
    adaptation: Implementation,
    algorithm: str,
    seed: int,
    device: torch.device,
    batches: Iterable[Mapping[str, torch.Tensor]],
) -> str:
    """All that plain steps over `batches` (on the CPU) follow from, but for their dtypes and the shake.

    What fills the other slots is no part of it: plain steps are made without it. Only an adaptation from outside might look at it.
    """
    import torch
    import transformers

    data = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch):
            data.update(batch[name].contiguous().numpy().tobytes())
    if adaptation.builder.__module__.startswith(_OURS):
        spec = dataclasses.replace(spec, fills=(), zero=None)
    place = str(torch.cuda.get_device_properties(device)) if device.type == "cuda" else device.type
    environment = torch.__version__, transformers.__version__, torch.get_num_threads(), torch.get_float32_matmul_precision(), place
    return repr((spec, adaptation.source, adaptation.name, algorithm, seed, data.hexdigest(), environment))
