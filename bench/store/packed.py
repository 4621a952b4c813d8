"""Text packed for an HTML page: deflated (zlib's format), in letters that a page may hold; read back within a limit.

Five letters are four bytes (base 85, Python's `b85encode` with three letters replaced that mean something in HTML), since four bytes in
base64 take a fifteenth more. A mark begins what is packed so; what begins otherwise is base64, as older versions wrote it.
"""

from __future__ import annotations

import base64
import zlib

MARK = "["
_MOST_EFFORT = 9
_THEIRS, _OURS = b"<>&", b",.:"
_WRITTEN, _READ = bytes.maketrans(_THEIRS, _OURS), bytes.maketrans(_OURS + _THEIRS, _THEIRS + b"   ")


def packed(text: str) -> str:
    """The text in ASCII that holds no character of HTML."""
    deflated = zlib.compress(text.encode("utf-8", "surrogatepass"), _MOST_EFFORT)
    return MARK + base64.b85encode(deflated).translate(_WRITTEN).decode("ascii")


def unpacked(text: str, limit_bytes: int) -> str:
    """What was packed. Raises ValueError for what was not, and for what holds more than so many bytes."""
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(_bytes(text), limit_bytes + 1)
        told = data.decode("utf-8", "surrogatepass") if len(data) <= limit_bytes else ""
    except (ValueError, zlib.error) as error:
        raise ValueError(f"cannot be unpacked ({error})") from error
    if len(data) > limit_bytes:
        raise ValueError(f"hold more than {limit_bytes} bytes")
    if not reader.eof or reader.unused_data:
        raise ValueError("cannot be unpacked (cut off)" if not reader.eof else "cannot be unpacked (something follows)")
    return told


def _bytes(text: str) -> bytes:
    if not text.startswith(MARK):
        return base64.b64decode(text, validate=True)
    letters = text.removeprefix(MARK).encode("ascii").translate(_READ)
    data = base64.b85decode(letters)
    if base64.b85encode(data) != letters:
        raise ValueError("the last letters say more than bytes can")
    return data
