"""Text packed for an HTML page: deflated (zlib's format) and in base64, which a browser can undo by itself; read back within a limit."""

from __future__ import annotations

import base64
import zlib

_MOST_EFFORT = 9


def packed(text: str) -> str:
    """The text in ASCII that holds no character of HTML."""
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), _MOST_EFFORT)).decode("ascii")


def unpacked(text: str, limit_bytes: int) -> str:
    """What was packed. Raises ValueError for what was not, and for what holds more than so many bytes."""
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b64decode(text, validate=True), limit_bytes + 1)
        told = data.decode("utf-8", "surrogatepass") if len(data) <= limit_bytes else ""
    except (ValueError, zlib.error) as error:
        raise ValueError(f"cannot be unpacked ({error})") from error
    if len(data) > limit_bytes:
        raise ValueError(f"hold more than {limit_bytes} bytes")
    if not reader.eof or reader.unused_data:
        raise ValueError("cannot be unpacked (cut off)" if not reader.eof else "cannot be unpacked (something follows)")
    return told
