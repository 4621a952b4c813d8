"""A file that somebody else may have written, read within limits: size, length of a line, depth, time, and nothing is ever executed."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import math
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from bench.errors import StoreError
from bench.records import Json

MAX_LINE_BYTES = 16 * 2**20
MAX_DEPTH = 64
MAX_DOCUMENT_BYTES = 32 * 2**20
"""Of a file that must be held in memory whole: small containers take twenty times their text there."""
MAX_STREAM_BYTES = 8 * 2**30
"""Of a file that is read line by line, after decompression."""
MAX_SECONDS = 900.0
"""For one file: a night's results take seconds."""
_HEAD_BYTES = 64 * 2**10


class Source:
    """One open file. `number` is that of the line that was read last, from 1. Every method raises StoreError, naming the line."""

    def __init__(self, path: Path, raw: BinaryIO) -> None:
        self.path = path
        self.number = 0
        self._raw = raw
        self._bytes = 0
        self._ends = time.monotonic() + MAX_SECONDS
        self._digest = hashlib.sha256()
        self._head = self._read(_HEAD_BYTES)
        self._rest = self._head

    @property
    def head(self) -> str:
        """The beginning of the file, to recognise it by; characters that are not UTF-8 are replaced."""
        return self._head.decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """Of all decompressed bytes that were read so far, in hex."""
        return self._digest.hexdigest()

    def refuse(self, why: str, number: int | None = None) -> NoReturn:
        """Raises StoreError for a line, the last one by default."""
        raise refusal(self.path, f"line {number or self.number}", why)

    def line(self) -> bytes | None:
        """The next line with its end, or None after the last one."""
        self._in_time()
        end = self._rest.find(b"\n") + 1
        if end:
            line, self._rest = self._rest[:end], self._rest[end:]
        elif self._rest:
            line, self._rest = self._rest + self._taken(self._raw.readline(MAX_LINE_BYTES + 1)), b""
        else:
            line = self._taken(self._raw.readline(MAX_LINE_BYTES + 1))
        if not line:
            return None
        self.number += 1
        if len(line) > MAX_LINE_BYTES:
            self.refuse(f"longer than {MAX_LINE_BYTES} bytes")
        if self._bytes > MAX_STREAM_BYTES:
            self.refuse(f"the file holds more than {MAX_STREAM_BYTES} bytes")
        return line

    def text_lines(self) -> Iterator[str]:
        """All lines as UTF-8 text."""
        while (line := self.line()) is not None:
            if self._bytes > MAX_DOCUMENT_BYTES:
                self.refuse(f"the file holds more than {MAX_DOCUMENT_BYTES} bytes")
            try:
                yield line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                self.refuse(f"not valid UTF-8 ({error.reason})")

    def document(self) -> Json:
        """The whole file as one JSON value."""
        parts = [self._rest]
        size = len(self._rest)
        self._rest = b""
        while part := self._read(2**20):
            parts.append(part)
            size += len(part)
            if size > MAX_DOCUMENT_BYTES:
                raise refusal(self.path, None, f"the file holds more than {MAX_DOCUMENT_BYTES} bytes")
            self._in_time()
        try:
            data = parsed(b"".join(parts), finite=True)
        except ValueError as error:
            raise refusal(self.path, None, str(error)) from error
        if deeper_than(data, MAX_DEPTH):
            raise refusal(self.path, None, f"nested deeper than {MAX_DEPTH}")
        self._in_time()
        return data

    def _read(self, count: int) -> bytes:
        return self._taken(self._raw.read(count))

    def _taken(self, data: bytes) -> bytes:
        self._bytes += len(data)
        self._digest.update(data)
        return data

    def _in_time(self) -> None:
        if time.monotonic() > self._ends:
            raise refusal(self.path, None, f"reading it takes longer than {MAX_SECONDS:.0f} s: split the file")


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The source at `path`, decompressed where it is gzip or xz. Raises StoreError for one that cannot be read or is damaged or cut off."""
    try:
        with path.open("rb") as raw:
            begins = raw.read(6)
            raw.seek(0)
            if begins.startswith(b"\x1f\x8b"):
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield Source(path, cast("BinaryIO", unpacked))
            elif begins == b"\xfd7zXZ\x00":
                with lzma.LZMAFile(raw) as unpacked_xz:
                    yield Source(path, cast("BinaryIO", unpacked_xz))
            else:
                yield Source(path, raw)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise StoreError(f"{path}: the compressed file is damaged or cut off ({error}). Nothing was imported") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def refusal(path: Path, where: str | None, why: str) -> StoreError:
    """The error that says which file, where, why, and that nothing was imported."""
    return StoreError(f"{path}{', ' + where if where else ''}: {why}. Nothing was imported")


def parsed(text: bytes, *, finite: bool = False) -> Json:
    """JSON without NaN and infinities; `finite` also refuses a number so large that it becomes one (slower).

    Raises ValueError in words for people.
    """
    try:
        return json.loads(text.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_finite if finite else None)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error


def deeper_than(data: Json, limit: int) -> bool:
    """Whether containers lie in containers more than `limit` times."""
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(limit):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:40]} is too large")
    return found
