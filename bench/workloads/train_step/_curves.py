"""Curves of plain PyTorch that the trials of a run hand on to one another: the arms of a point are compared with the same ones.

A curve is fifty steps and follows from what its key holds, so whoever computes it gets the same numbers; computed anew by each arm they
are four fifths of a check. A run names a folder for them, for as long as it lasts and in one environment.

In a process where somebody has changed what plain PyTorch computes a curve would mislead others, and one with more noise would widen
what they may be off by. So torch's own switches are part of the key; a trial leaves its curves only where its check has passed and all
its implementations are built in; and whom a curve of others fails is compared with its own after all (`_learning.py`). How many curves of
others a verdict was made with is told in the row.
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
_SWITCHES_OF_PRODUCTS = (
    "fp32_precision",
    "allow_fp16_accumulation",
    "allow_fp16_reduced_precision_reduction",
    "allow_fp16_reduced_precision_reduction_split_k",
    "allow_bf16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction_split_k",
)
"""Of `torch.backends.cuda.matmul`: how cuBLAS rounds."""


class Curves:
    """Curves by what they follow from: those that lie in `folder`, and those that are computed here."""

    def __init__(self, folder: Path | None) -> None:
        self.taken = 0
        """How many came from the folder, of those that the check's verdict was made with."""
        self._folder = folder
        self._made: dict[Path, list[float]] = {}

    def curve(self, key: str, compute: Callable[[], list[float]]) -> list[float]:
        """The losses of `key`, computed where nobody has left them or what was left cannot be read."""
        if self._folder is None:
            return compute()
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        try:
            losses: list[float] = json.loads(path.read_text())
        except (OSError, ValueError):  # none there, or one that the disk has cut or does not give: no fault of the subject's
            losses = self._made[path] = compute()
            return losses
        self.taken += 1
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


def all_built_in(implementations: Iterable[Implementation]) -> bool:
    """Whether none is from outside: building one of those may have changed torch or transformers in this process."""
    return all(entry.builder.__module__.startswith(_OURS) for entry in implementations)


def key_of(
    spec: TrainStepSpec,
    adaptation: Implementation,
    algorithm: str,
    seed: int,
    device: torch.device,
    batches: Iterable[Mapping[str, torch.Tensor]],
) -> str:
    """All that plain steps over `batches` (on the CPU) follow from if they are made now, but for their dtypes and the shake.

    What fills the other slots is no part of it: plain steps are made without it. Only an adaptation from outside might look at it.
    """
    import torch
    import transformers

    data = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch):
            data.update(batch[name].contiguous().numpy().tobytes())
    if all_built_in([adaptation]):
        spec = dataclasses.replace(spec, fills=(), zero=None)
    place = str(torch.cuda.get_device_properties(device)) if device.type == "cuda" else device.type
    environment = torch.__version__, transformers.__version__, place, _switches()
    return repr((spec, adaptation.source, adaptation.name, algorithm, seed, data.hexdigest(), environment))


def _switches() -> dict[str, object]:
    """What a process may set and plain PyTorch computes by; None for a switch that this release of torch has not."""
    import torch

    products, on_cpu = torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)
    try:
        fp32_products = torch.get_float32_matmul_precision()
    except RuntimeError:  # torch tells none where its older and its newer switches contradict each other; the newer ones are below
        fp32_products = None
    return {
        "threads": torch.get_num_threads(),
        "default_dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": fp32_products,
        "blas": torch.backends.cuda.preferred_blas_library(),
        "cpu_fp32_precision": getattr(on_cpu, "fp32_precision", None),
        **{name: getattr(products, name, None) for name in _SWITCHES_OF_PRODUCTS},
    }
