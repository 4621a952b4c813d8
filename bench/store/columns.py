"""Rows of JSON as columns, and back: what stands under one name in all rows stands side by side, so that it packs far better.

A node tells of all values at one place of the rows, in the order in which the rows have them; each of its lists is a single value where
all its entries are the same one, as `{"is": value}`:

    {"keys": which of the shapes each object has, "of": {key: node}}
    {"count": the lengths of lists, "items": node}
    {"names": for each list the `metric` of each of its objects, "of": {metric: node}}
    {"value": what is neither object nor list}

A place where rows differ in kind has several of these, and under `"kind"` which of them each value is. `shapes` are the lists of keys
that occur. Order of keys, whole and broken numbers come back as they were. What is read is somebody's file, so nothing is taken on trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.records import Json

NAME = "metric"
MOST_ROWS = 100_000
MOST_VALUES = 1_000_000
"""Of one row, 16 characters of text being one more: a repeated value takes no room in a file, and must not fill memory."""
MOST_TOGETHER = 8 * 2**20
"""Values of all rows, as many as lines of their own could hold in 16 MiB: nor must it fill a disk."""
_CHARS = 16
_OBJECT, _LIST, _NAMED, _VALUE = "object", "list", "named", "value"


def in_columns(rows: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """One row or more as `{"rows": how many, "shapes": [...], "node": {...}}`."""
    shapes: dict[tuple[str, ...], int] = {}
    node = _node(list(rows), shapes)
    return {"rows": len(rows), "shapes": [list(shape) for shape in shapes], "node": node}


def rows_of(data: Json) -> Iterator[tuple[dict[str, Json], int]]:
    """The rows, one by one, with about how many bytes each takes. Raises ValueError, at the latest with the row that cannot be made."""
    count, shapes, node = (data.get(name) if isinstance(data, dict) else None for name in ("rows", "shapes", "node"))
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_ROWS:
        raise ValueError(f"no number of rows from 0 to {MOST_ROWS}")
    if not isinstance(shapes, list) or not all(
        isinstance(shape, list) and all(isinstance(key, str) for key in shape) for shape in shapes
    ):
        raise ValueError("shapes are no lists of keys")
    reader = _Reader(shapes, node)
    together = 0
    for _ in range(count):
        row = reader.row()
        values = MOST_VALUES - reader.left
        together += values
        if together > MOST_TOGETHER:
            raise ValueError(f"the rows hold more than {MOST_TOGETHER} values together")
        yield row, _CHARS * values
    reader.close()


def _kind(value: Json) -> str:
    if isinstance(value, Mapping):
        return _OBJECT
    if not isinstance(value, list | tuple):
        return _VALUE
    named = bool(value) and all(isinstance(item, Mapping) and isinstance(item.get(NAME), str) for item in value)
    return _NAMED if named else _LIST


def _node(values: Sequence[Json], shapes: dict[tuple[str, ...], int]) -> dict[str, Json]:
    kinds = [_kind(value) for value in values]
    there = dict.fromkeys(kinds)
    node: dict[str, Json] = {} if len(there) == 1 else {"kind": _listed(kinds)}
    for kind in there:
        own = [value for value, its in zip(values, kinds, strict=True) if its == kind]
        node[kind] = _WRITERS[kind](own, shapes)
    return node


def _objects(values: Sequence[Mapping[str, Json]], shapes: dict[tuple[str, ...], int]) -> Json:
    under: dict[str, list[Json]] = {}
    for value in values:
        for key, inner in value.items():
            under.setdefault(key, []).append(inner)
    keys = [shapes.setdefault(tuple(value), len(shapes)) for value in values]
    return {"keys": _listed(keys), "of": {key: _node(inner, shapes) for key, inner in under.items()}}


def _lists(values: Sequence[Sequence[Json]], shapes: dict[tuple[str, ...], int]) -> Json:
    items = [item for value in values for item in value]
    return {"count": _listed([len(value) for value in values]), **({"items": _node(items, shapes)} if items else {})}


def _named(values: Sequence[Sequence[Mapping[str, Json]]], shapes: dict[tuple[str, ...], int]) -> Json:
    under: dict[str, list[Json]] = {}
    for value in values:
        for item in value:
            under.setdefault(item[NAME], []).append(item)
    names = [shapes.setdefault(tuple(item[NAME] for item in value), len(shapes)) for value in values]
    return {"names": _listed(names), "of": {name: _node(inner, shapes) for name, inner in under.items()}}


_WRITERS: Mapping[str, Any] = {_OBJECT: _objects, _LIST: _lists, _NAMED: _named, _VALUE: lambda values, _: _listed(values)}


def _listed(values: Sequence[Json]) -> Json:
    """True is not 1, 1 not 1.0, and 0.0 not -0.0."""
    first = values[0]
    same = all(type(value) is type(first) and value == first and (value or str(value) == str(first)) for value in values)
    return {"is": first} if same else list(values)


def _columns(node: Json) -> Iterator[Json]:
    """What stands under each kind, at all places."""
    for kind, inner in node.items() if isinstance(node, dict) else ():
        if kind == "kind":
            continue
        yield inner
        if isinstance(inner, dict) and kind != _VALUE:
            of = inner.get("of")
            for child in (inner.get("items"), *(of.values() if isinstance(of, dict) else ())):
                yield from _columns(child)


class _Reader:
    """Rows out of columns, in order; each list is read once, from its beginning to its end."""

    def __init__(self, shapes: list[list[str]], node: Json) -> None:
        self._shapes = shapes
        self._node = node
        self._at: dict[int, int] = {}
        """How far each list was read."""
        self._lists: list[list[Json]] = []
        self._read: set[int] = set()
        """Which columns were read."""
        self.left = MOST_VALUES
        """Of what the row that was read last may hold."""

    def row(self) -> dict[str, Json]:
        self.left = MOST_VALUES
        row = self._value(self._node)
        if not isinstance(row, dict):
            raise ValueError("a row is no object")
        return row

    def close(self) -> None:
        """Raises ValueError where something is left over."""
        if any(self._at[id(values)] != len(values) for values in self._lists):
            raise ValueError("a column holds more than its rows")
        if any(id(column) not in self._read for column in _columns(self._node)):
            raise ValueError("a column belongs to no row")

    def _value(self, node: Json) -> Any:
        self._takes(1)
        if not isinstance(node, dict) or not node:
            raise ValueError("a column is missing")
        kind = self._next(node["kind"]) if "kind" in node else next(iter(node))
        inner = node.get(kind) if isinstance(kind, str) else None
        self._read.add(id(inner))
        if kind == _VALUE:
            return self._plain(inner)
        if not isinstance(inner, dict):
            raise ValueError("a column is of no known kind")
        if kind == _LIST:
            return [self._value(inner.get("items")) for _ in range(self._count(inner.get("count")))]
        of = inner.get("of")
        if kind not in (_OBJECT, _NAMED) or not isinstance(of, dict):
            raise ValueError("a column is of no known kind")
        keys = self._shape(inner.get("keys" if kind == _OBJECT else "names"))
        if kind == _OBJECT:
            found = {key: self._value(of.get(key)) for key in keys}
            if len(found) != len(keys):
                raise ValueError("an object has a key twice")
            return found
        return [self._value(of.get(name)) for name in keys]

    def _takes(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise ValueError(f"a row holds more than {MOST_VALUES} values")

    def _next(self, listed: Json) -> Json:
        if isinstance(listed, dict) and "is" in listed:
            return listed["is"]
        if not isinstance(listed, list):
            raise ValueError("a column has no values")
        place = self._at.get(id(listed))
        if place is None:
            self._lists.append(listed)
            place = 0
        if place >= len(listed):
            raise ValueError("a column holds fewer values than its rows")
        self._at[id(listed)] = place + 1
        return listed[place]

    def _plain(self, listed: Json) -> Json:
        value = self._next(listed)
        if isinstance(value, dict | list):
            raise ValueError("a value is an object or a list")
        if isinstance(value, str):
            self._takes(len(value) // _CHARS)
        return value

    def _count(self, listed: Json) -> int:
        count = self._next(listed)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_VALUES:
            raise ValueError("a list has no length")
        return count

    def _shape(self, listed: Json) -> list[str]:
        place = self._next(listed)
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(self._shapes):
            raise ValueError("a shape is not there")
        shape = self._shapes[place]
        self._takes(sum(map(len, shape)) // _CHARS)
        return shape
