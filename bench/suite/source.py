"""Reads YAML into plain data, and remembers on which line every key stands.

The dialect is YAML 1.2's core schema (`no` is text, `1e-5` is a number), without tags, without dates, and with limits, so that no
file can make the reader run for long: 64 KiB, 20 000 values (aliases counted as often as they are used), 30 levels.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.errors import Problem, SuiteError

MAX_BYTES = 64 * 1024
MAX_VALUES = 20_000
MAX_DEPTH = 30

Key = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


SETTING = "--set"
"""What stands instead of a file where something was said on the command line."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written: the file (or option), the line in it, and the key as the user sees it."""

    file: str | None
    line: int | None
    key: str


@dataclass(frozen=True, slots=True)
class Source:
    """Plain data and the place of every key in it."""

    data: Any
    places: Mapping[Key, Place] = field(default_factory=dict)
    file: str | None = None

    def place(self, key: Key) -> Place:
        """Where `key` was written, or the nearest key around it."""
        for length in range(len(key), 0, -1):
            found = self.places.get(key[:length])
            if found is not None:
                return found
        return Place(self.file, None, dotted(key))

    def problem(self, key: Key, message: str, suggestion: str | None = None) -> Problem:
        """A problem that points at `key`."""
        place = self.place(key)
        return Problem(message, place.file, place.line, place.key or None, suggestion)


def dotted(key: Sequence[str | int]) -> str:
    """`("sweep", "dtype", 1)` as `sweep.dtype[1]`, cut where somebody's key is very long."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part[:80]}"
    return text


def read_file(path: Path) -> Source:
    """The suite file as plain data; raises SuiteError, with every mistake of form, where it is not one."""
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SuiteError([Problem("there is no such file", name)]) from None
    except IsADirectoryError:
        raise SuiteError([Problem("this is a folder: name the suite files in it", name)]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SuiteError([Problem(f"cannot be read: {reason or error}", name)]) from None
    if len(content) > MAX_BYTES:
        raise SuiteError([Problem(f"is larger than {MAX_BYTES // 1024} KiB; a suite is a page of text", name)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SuiteError([Problem("is not UTF-8 text", name, line)]) from None
    return read_text(text, name)


def read_text(text: str, file: str | None) -> Source:
    """`text` as plain data; `file` is what problems call it. Raises SuiteError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        if "\\t" in message:
            message += "; YAML does not allow tabs here, use spaces"
        raise SuiteError([Problem(f"not valid YAML: {message}", file, mark.line + 1 if mark else None)]) from None
    except yaml.YAMLError as error:
        raise SuiteError([Problem(f"not valid YAML: {' '.join(str(error).split())}", file)]) from None
    except RecursionError:
        raise SuiteError([Problem(f"is nested deeper than {MAX_DEPTH} levels", file)]) from None
    except (ValueError, OverflowError) as error:  # what PyYAML lets through for a number that is no character
        raise SuiteError([Problem(f"not valid YAML: {error}", file)]) from None
    reader = _Reader(file)
    data = reader.value(root, ()) if root is not None else None
    if reader.problems:
        raise SuiteError(list(dict.fromkeys(reader.problems)))
    return Source(data, reader.places, file)


class _Reader:
    """Turns nodes into data, and collects places and problems on the way."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.places: dict[Key, Place] = {}
        self.problems: list[Problem] = []
        self._values = 0
        self._open: list[yaml.Node] = []

    def _complain(self, node: yaml.Node, key: Key, message: str) -> None:
        self.problems.append(Problem(message, self.file, node.start_mark.line + 1, dotted(key) or None))

    def value(self, node: yaml.Node, key: Key) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            self._complain(node, key[:3], f"more than {MAX_VALUES} values; a suite is a page of text")
            raise SuiteError(self.problems)
        if any(node is parent for parent in self._open):
            self._complain(node, key, "an alias that contains itself")
            return None
        if len(self._open) >= MAX_DEPTH:
            self._complain(node, key[:3], f"nested deeper than {MAX_DEPTH} levels")
            return None
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, key)
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, key)
            return self._scalar(node, key)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        self._refuse_tag(node, key, "tag:yaml.org,2002:map")
        data: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            name = self._key_name(key_node, key)
            if name is None:
                continue
            if name in data:
                self._complain(key_node, (*key, name), f"this key is there twice, first on line {first_lines[name]}")
                continue
            first_lines[name] = line
            path = (*key, name)
            self.places[path] = Place(self.file, line, dotted(path))
            data[name] = self.value(value_node, path)
        return data

    def _key_name(self, node: yaml.Node, key: Key) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._complain(node, key, "a key must be a word, not a list or a mapping")
            return None
        if _CONTROL.search(node.value):
            self._complain(node, key, "a key with control characters")
            return None
        return str(node.value)

    def _sequence(self, node: yaml.SequenceNode, key: Key) -> list[Any]:
        self._refuse_tag(node, key, "tag:yaml.org,2002:seq")
        data = []
        for index, child in enumerate(node.value):
            path = (*key, index)
            self.places[path] = Place(self.file, child.start_mark.line + 1, dotted(path))
            data.append(self.value(child, path))
        return data

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        text = node.value
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        known = {"str", "int", "float", "bool", "null", "timestamp", "merge", "value"}
        if not (node.tag.startswith("tag:yaml.org,2002:") and node.tag.rsplit(":", 1)[-1] in known):
            self._complain(node, key, f"the tag {node.tag[:80]} is not allowed: suites are plain data")
            return None
        if not plain:
            return self._text(node, text, key)
        return self._plain(node, text, key)

    def _plain(self, node: yaml.Node, text: str, key: Key) -> Any:
        if text in {"", "~", "null", "Null", "NULL"}:
            return None
        if text in {"true", "True", "TRUE"}:
            return True
        if text in {"false", "False", "FALSE"}:
            return False
        if _INTEGER.fullmatch(text):
            if len(text.lstrip("+-")) > 19 or abs(int(text)) >= 2**63:
                self._complain(node, key, "this number is too large")
                return None
            return int(text)
        if text.lower() in {".nan", ".inf", "+.inf", "-.inf"} or (_FLOAT.fullmatch(text) and not math.isfinite(float(text))):
            self._complain(node, key, "a number must be finite")
            return None
        if _FLOAT.fullmatch(text):
            return float(text)
        return self._text(node, text, key)

    def _text(self, node: yaml.Node, text: str, key: Key) -> str | None:
        with contextlib.suppress(UnicodeDecodeError):  # JSON, which is YAML too, writes one emoji as two escapes
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        if _CONTROL.search(text):
            self._complain(node, key, "text with control characters")
            return None
        return text

    def _refuse_tag(self, node: yaml.Node, key: Key, plain: str) -> None:
        if node.tag != plain:
            self._complain(node, key, f"the tag {node.tag[:80]} is not allowed: suites are plain data")
