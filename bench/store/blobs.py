"""How samples and logs lie in the tables: as bytes, under the name of their encoding."""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Sequence

SAMPLE_ENCODING = "float64-zlib"
SHORT_ENCODING = "float64"
"""Of few samples: zlib takes longer than all else and saves little."""
LOG_ENCODING = "utf8-zlib"

_SHORT = 128
_ZLIB_LEVEL = 1
"""Timings hardly compress, and an import of a whole night must not wait for zlib."""


def pack_samples(samples: Sequence[float]) -> tuple[str, bytes]:
    """The encoding, and little-endian float64, compressed unless they are few."""
    numbers = array("d", samples)
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) <= _SHORT:
        return SHORT_ENCODING, numbers.tobytes()
    return SAMPLE_ENCODING, zlib.compress(numbers.tobytes(), _ZLIB_LEVEL)


def unpack_samples(encoding: str, data: bytes) -> tuple[float, ...]:
    """The samples of a blob; raises ValueError where it does not decode."""
    if encoding not in (SAMPLE_ENCODING, SHORT_ENCODING):
        raise ValueError(f"samples in the unknown encoding {encoding!r}")
    numbers = array("d")
    try:
        numbers.frombytes(zlib.decompress(data) if encoding == SAMPLE_ENCODING else data)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"samples do not decode: {error}") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def pack_log(log: str) -> tuple[str, bytes]:
    """The encoding, and UTF-8, compressed."""
    return LOG_ENCODING, zlib.compress(log.encode(), _ZLIB_LEVEL)


def unpack_log(encoding: str, data: bytes) -> str:
    """The text of a log; raises ValueError where it does not decode."""
    if encoding != LOG_ENCODING:
        raise ValueError(f"a log in the unknown encoding {encoding!r}")
    try:
        return zlib.decompress(data).decode()
    except zlib.error as error:
        raise ValueError(f"a log does not decompress: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"a log is no text: {error}") from error
