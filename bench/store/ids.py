"""Ids that a client makes by itself, so that databases merge without renumbering."""

from __future__ import annotations

import secrets
import time
import uuid


def new_id() -> str:
    """A UUID of version 7 as text: sorts by time of making (to a quarter of a microsecond), and never repeats between machines."""
    milliseconds, rest_ns = divmod(time.time_ns(), 1_000_000)
    fraction = (rest_ns << 12) // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))
