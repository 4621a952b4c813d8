"""GPUs by name with their memory and constants, from devices.yaml; others by a size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.catalogue.shipped import read_shipped
from bench.plan.residents import CUBLAS_BYTES, CUBLAS_BYTES_BEFORE_9
from bench.plan.spec import PlanError


def parse_size(text: str) -> int:
    """Bytes of `80GB` (1e9 each) or `141GiB` (2^30 each); a bare number is GB. Raises PlanError."""
    from bench.suite import parse_size as parsed  # only here: the suite language takes a fifth of a second to import

    try:
        return parsed(text)
    except ValueError as error:
        raise PlanError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Gpu:
    """What of a GPU a prediction depends on."""

    memory_bytes: int
    workspace_bytes: int
    """PyTorch's, for each handle of cuBLAS."""


@dataclass(frozen=True, slots=True)
class Host:
    """What GPUs of one host share."""

    memory_bytes: int | None = None
    """That training may take; None: whatever it needs."""
    gpus: int = 1
    """That train on it, each with a process of its own."""


def gpus() -> Mapping[str, Gpu]:
    """By name, in the order of the file."""
    table = read_shipped(Path(__file__).with_name("devices.yaml"))
    return MappingProxyType({name: _gpu(entry) for name, entry in table.items()})


def _gpu(entry: Mapping[str, Any]) -> Gpu:
    older = float(entry.get("capability", 9)) < 9
    return Gpu(int(float(entry["memory_gib"]) * 2**30), CUBLAS_BYTES_BEFORE_9 if older else CUBLAS_BYTES)


def gpu_named(name: str) -> Gpu:
    """Of the table, by its name or a shorter form of it (`4090`, `a100-80`). Raises PlanError for others, with what to do."""
    table = gpus()
    key = name.strip().lower().replace(" ", "-").removeprefix("nvidia-").removeprefix("geforce-")
    found = [key] if key in table else [known for known in table if key in (known.removeprefix("rtx-"), known.removesuffix("gb"))]
    if not found:
        near = [known for known in table if known.startswith(f"{key}-")] or get_close_matches(key, list(table), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise PlanError(f"no GPU is called {name!r} here{hint} Known: {', '.join(table)}. Others: --gpu-memory 80GB")
    return table[found[0]]
