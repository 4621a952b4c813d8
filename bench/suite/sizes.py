"""Sizes as people write them: `80GB` is 80e9 bytes, `141GiB` is 141 * 2**30, a bare number is GB."""

from __future__ import annotations

import re

_UNITS = {
    "": 10**9,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(size: str | int | float) -> int:
    """Bytes of a size. Raises ValueError, in words for the user, for anything that is not a positive size."""
    if isinstance(size, bool):
        raise ValueError("a size is written 80GB or 141GiB")
    match = _SIZE.fullmatch(format(size, ".15f") if isinstance(size, float) else str(size))
    unit = _UNITS.get(match[2].lower()) if match else None
    if not match or unit is None:
        raise ValueError(f"{str(size)[:40]!r} is not a size; write 80GB (1e9 bytes each) or 141GiB (2**30 bytes each)")
    whole, _, fraction = match[1].partition(".")
    size_bytes: int = int(whole) * unit + int(fraction or "0") * unit // 10 ** len(fraction)
    if size_bytes < 1:
        raise ValueError(f"{str(size)[:40]!r} is no memory at all")
    return size_bytes


def spell_size(size_bytes: int) -> str:
    """The size in the largest unit that divides it: what `parse_size` reads as exactly so many bytes again."""
    units = {name: _UNITS[name.lower()] for name in ("B", "kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB")}
    number, name = min((size_bytes // unit, name) for name, unit in units.items() if size_bytes % unit == 0)
    return f"{number}{name}"
