"""stepbench: benchmarks, with a results database, for the techniques that make LLM training fit and run fast."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`bench.results` (bench/api.py) is fetched when somebody asks for it, so that a light command pays for nothing."""
    if name == "results":
        from importlib import import_module

        # Not an import statement: every room may ask this module for the version, and none may see the api.
        return import_module("bench.api").results
    raise AttributeError(f"module 'bench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "results"]
