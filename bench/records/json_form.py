"""Records as JSON and back, and the fingerprint of what is canonical: two machines that never met agree on it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from bench.records.words import Json

R = TypeVar("R")


def canonical_json(data: Json) -> str:
    """JSON with sorted keys and no spaces. Raises ValueError on NaN and infinities."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(data: Json) -> str:
    """SHA-256, in hex, of the canonical JSON of `data`."""
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


_ADAPTERS: dict[Any, Any] = {}


def validator(cls: Any) -> Any:
    """pydantic's validator of a record; building one costs some ten milliseconds, so each is kept."""
    from pydantic import TypeAdapter

    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


def dump(record: Any) -> Json:
    """JSON-ready data of a record; raises ValueError on NaN and infinities."""
    return validator(type(record)).dump_python(record, mode="json")


def load(cls: type[R], data: Json) -> R:
    """The record of `cls` in `data`; raises pydantic's ValidationError (a ValueError) where it does not fit."""
    record: R = validator(cls).validate_python(data)
    return record


def load_json(cls: type[R], text: str | bytes) -> R:
    """`load` from JSON text."""
    record: R = validator(cls).validate_json(text)
    return record
