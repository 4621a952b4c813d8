"""YAML files that come with the package: read by libyaml where PyYAML was built with it, ten times as quickly."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_shipped(path: Path) -> dict[str, Any]:
    """The mapping in a file of our own; what users write has better messages (suite/source.py)."""
    import yaml

    table: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return table
