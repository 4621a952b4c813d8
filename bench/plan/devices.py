"""GPUs by name with their memory, from devices.yaml; others by a size."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from bench.plan.spec import PlanError


def parse_size(text: str) -> int:
    """Bytes of `80GB` (1e9 each) or `141GiB` (2^30 each); a bare number is GB. Raises PlanError."""
    from bench.suite import parse_size as parsed  # only here: the suite language takes a fifth of a second to import

    try:
        return parsed(text)
    except ValueError as error:
        raise PlanError(str(error)) from error


def gpus() -> Mapping[str, int]:
    """Name to bytes, in the order of the file."""
    import yaml

    table = yaml.safe_load(Path(__file__).with_name("devices.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({name: int(float(entry["memory_gib"]) * 2**30) for name, entry in table.items()})


def gpu_memory(name: str) -> int:
    """Bytes of a GPU of the table. Raises PlanError for others, with what to do."""
    table = gpus()
    key = name.strip().lower().replace(" ", "-").removeprefix("nvidia-")
    found = [key] if key in table else [known for known in table if known.replace("rtx-", "") == key]
    if not found:
        near = get_close_matches(key, list(table), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PlanError(f"no GPU is called {name!r} here{hint} Known: {', '.join(table)}. Others: --gpu-memory 80GB")
    return table[found[0]]
