"""A suite file to write and change, and the catalogue."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.catalogue import Catalogue, load_catalogue
from bench.suite import Suite, load_suite

PLAIN: dict[str, Any] = {
    "schema": 1,
    "name": "attention",
    "question": "Which kernel?",
    "workload": "attention",
    "subjects": {"attention": ["eager", "sdpa_flash"]},
    "sweep": {
        "model": ["tiny"],
        "seq_len": [128, 256],
        "batch": [1],
        "dtype": ["fp32"],
        "pass": ["forward", "forward_backward"],
    },
}

Write = Callable[..., Path]
Load = Callable[..., Suite]


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load_catalogue()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes text as it is, or a plain suite with changes: `write(sweep={...}, threads=2)`; None takes a key away."""

    def write_suite(text: str | None = None, **changes: Any) -> Path:
        path = tmp_path / "suite.yaml"
        data = {**copy.deepcopy(PLAIN), **changes}
        data = {key: value for key, value in data.items() if value is not None}
        path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True) if text is None else text, encoding="utf-8")
        return path

    return write_suite


@pytest.fixture
def load(write: Write, catalogue: Catalogue) -> Load:
    def load_changed(text: str | None = None, *, profile: str | None = None, sets: tuple[str, ...] = (), **changes: Any) -> Suite:
        return load_suite(write(text, **changes), catalogue, profile=profile, sets=sets)

    return load_changed
